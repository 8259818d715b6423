"""The search for devices on one node, in upstream's order and without its exponential ways."""
