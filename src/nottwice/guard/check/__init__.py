"""What does the code of a tool, a node or a run do? nottwice reads the code and runs none of it."""
