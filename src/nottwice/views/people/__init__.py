"""What people are asked: the inbox, one review, and what each answer will do."""
