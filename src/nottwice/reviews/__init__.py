"""Reviews from the outside: the queue, a decision applied once, and asking ``verify`` again."""
