"""Planned machines as objects of those who make them."""
