"""Nodes: what runs the pods that were bound to them."""
