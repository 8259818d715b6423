"""The inputs of a plan: instance types, limits, and the control of its search."""
