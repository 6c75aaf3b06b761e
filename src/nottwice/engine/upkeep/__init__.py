"""What is on record, and what of it is removed?"""
