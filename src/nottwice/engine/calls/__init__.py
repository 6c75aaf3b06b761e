"""How does one call happen, from its request to its receipt?"""
