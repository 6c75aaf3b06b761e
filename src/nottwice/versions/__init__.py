"""Versions of graphs: which still have open runs, and the lock file that a build checks."""
