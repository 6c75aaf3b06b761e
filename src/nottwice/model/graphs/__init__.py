"""What is a graph, where is a run in it, and what does a change of it mean?"""
