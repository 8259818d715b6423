"""Functions for rules: API versions, fields, feature gates and validation of objects."""
