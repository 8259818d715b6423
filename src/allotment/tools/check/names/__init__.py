"""What rules know of names: whose they are, and which one was meant."""
