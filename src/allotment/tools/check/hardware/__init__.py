"""Shared by rules: devices of known hardware, devices of the given cluster, and hardware on which objects fit."""
