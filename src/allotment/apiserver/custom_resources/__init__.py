"""Custom resources: kinds that CustomResourceDefinitions define."""
