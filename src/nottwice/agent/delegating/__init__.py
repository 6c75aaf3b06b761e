"""Workers of an agent: what they are given, what they may spend, and what they report."""
