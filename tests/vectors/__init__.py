"""Recorded answers of the real Kubernetes, and how ours are scored against them."""
