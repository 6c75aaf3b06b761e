"""The same thirty tasks, killed once each, with three ways of keeping state: what is left of them?

``tasks`` is what there is to do, ``journey`` what befalls a process that does it, ``ways`` the
three ways, ``comparing`` the kills, the people and the table.
"""
