"""How a call happens: decided, recorded, fired, reconciled."""
