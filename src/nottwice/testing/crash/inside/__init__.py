"""What runs inside the child that is killed."""
