"""Offered machines: instance types within the limits, modes of their GPUs, and node templates for the engine."""
