"""What does a run wait for, and what is not done behind it?"""
