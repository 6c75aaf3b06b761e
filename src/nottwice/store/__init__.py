"""What is durable: one commit is one transaction."""
