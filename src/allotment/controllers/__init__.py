"""Kubernetes controllers, each of which can run alone."""
