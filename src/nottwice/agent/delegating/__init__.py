"""Workers of an agent: what they are given, what they may take, and what they report."""
