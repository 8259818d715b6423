"""Functions for rules: the pods that reference a claim, the devices that it requests, and its parameters."""
