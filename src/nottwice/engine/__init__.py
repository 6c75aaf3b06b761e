"""How a call happens: it is decided, recorded, fired and reconciled."""
