"""What proves that a row is ours, and what stands in place of a secret?"""
