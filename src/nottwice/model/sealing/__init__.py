"""What proves that nottwice wrote a row, and what is stored in place of a secret?"""
