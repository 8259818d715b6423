"""Finds a node and devices for every pod, writes them down, and says why when there are none."""
