"""What does the code of a tool, a node or a run do? It is read, and nothing of it is run."""
