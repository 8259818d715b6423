"""Allotment's programs as components of a real cluster: leader election, probes, metrics, logs, graceful shutdown."""
