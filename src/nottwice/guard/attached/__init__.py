"""How does other code, such as an adapter of a framework, make its calls in a run?"""
