"""How views are printed on a terminal or into a pipe."""
