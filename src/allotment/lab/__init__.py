"""The lab: a whole control plane in one process, and how it is started, seen and stopped."""
