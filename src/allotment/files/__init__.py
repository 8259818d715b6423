"""Writes files atomically, and files that only their owner can read."""
