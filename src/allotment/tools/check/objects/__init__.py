"""Shared by rules: API versions, fields, feature gates and validation of objects."""
