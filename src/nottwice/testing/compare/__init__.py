"""What is left of the same thirty tasks, killed once each, with three ways of keeping state?

``tasks`` defines the work, ``journey`` what happens to a process that does it, ``ways`` the three
ways, and ``comparing`` the kills, the decisions and the table.
"""
