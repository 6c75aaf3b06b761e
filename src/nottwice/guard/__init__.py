"""How tools are declared: their signatures, their keys, and how values become plain data."""
