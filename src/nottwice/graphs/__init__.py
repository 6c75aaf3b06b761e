"""Graphs: versioned workflows of nodes over plain-data state, advanced by anyone."""
