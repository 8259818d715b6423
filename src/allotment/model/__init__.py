"""Kubernetes objects as values: kinds, versions, defaults, validation, quantities and versions."""
