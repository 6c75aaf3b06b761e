"""Where a tool is declared: its signature, its key, and how its values become plain data."""
