"""Shared by rules: simulated allocation of the files' objects in the given cluster."""
