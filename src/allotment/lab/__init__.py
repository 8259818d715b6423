"""The lab: a control plane in one process, and the commands that start, inspect and stop it."""
