"""What is known about tools without importing the code that declares them."""
