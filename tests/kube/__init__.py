"""Tests that run Kubernetes' own programs: ``make test-kube``."""
