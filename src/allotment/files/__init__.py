"""Writes files atomically, and creates files that only their owner can read."""
