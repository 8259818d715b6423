"""Drivers of Kubernetes' example devices, for trying manifests and for reading."""
