"""Functions for rules: names that drivers publish or install, and suggestions for unknown names."""
