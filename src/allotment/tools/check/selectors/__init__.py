"""What rules know of expressions: what they read and compare, for which devices, and how to rewrite them."""
