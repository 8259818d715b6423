"""Simulated NVIDIA GPUs: hardware with the errors of real hardware, and a server on which programs compute."""
