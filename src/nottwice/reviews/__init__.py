"""Reviews from the outside: the queue, decisions that apply once, and rechecks with ``verify``."""
