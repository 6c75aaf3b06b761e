"""The pure model: no I/O, no clock, no randomness, no logging."""
