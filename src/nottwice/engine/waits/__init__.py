"""What does a run wait for, and what must not happen until then?"""
