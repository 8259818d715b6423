"""Kubernetes' own end-to-end tests, run against a lab."""
