"""Graphs: versioned workflows of nodes over plain-data state. Any process can advance a run."""
