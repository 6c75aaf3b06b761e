"""Versions of graphs: what still drains, and the lock file that a build compares code with."""
