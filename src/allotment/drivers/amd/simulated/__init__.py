"""Simulated AMD GPUs."""
