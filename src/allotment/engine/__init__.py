"""Allocation: which devices satisfy which claims on which node, and why not."""
