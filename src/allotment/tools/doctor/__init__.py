"""``doctor``: checks of a cluster's devices, claims and drivers that report findings with evidence and remedy."""
