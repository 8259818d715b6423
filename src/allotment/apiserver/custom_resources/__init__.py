"""Kinds that users define by CustomResourceDefinitions."""
