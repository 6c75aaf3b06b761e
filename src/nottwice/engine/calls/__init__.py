"""How does a call happen, from the request to the receipt?"""
