"""How does a value become plain data, and how does it come back?"""
