"""Functions for rules: analysis of the CEL expressions of device selectors."""
