"""The search for devices on one node, in upstream's order but without its exponential run time."""
