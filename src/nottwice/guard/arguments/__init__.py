"""How do the arguments of a call become validated values, a record and an identity?"""
