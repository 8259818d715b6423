"""Simulates pod placement with the device plugin and with DRA, and compares the two."""
