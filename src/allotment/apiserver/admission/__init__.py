"""Admission policies: they are validated, matched and evaluated here, and called for every write."""
