"""Functions for rules: devices of known hardware and of the given cluster, and hardware on which objects fit."""
