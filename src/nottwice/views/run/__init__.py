"""One run: what happened in it, how far it came, what it waits for, and who continues it."""
