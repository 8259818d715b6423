"""What rules know of devices: those of all known hardware, those of the given cluster, and where objects would fit."""
