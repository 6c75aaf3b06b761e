"""What is a graph, where is a run of it, and what does a change of it mean?"""
