"""How are people told? A review opened, grew old, was decided, or a run failed (P333 to P339)."""
