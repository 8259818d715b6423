"""Simulated allocation of the files' objects in the given cluster, for the rules that report it."""
