"""The packing problem: item kinds, candidate nodes, conflicts, and the exact check of a node's load."""
