"""``allot demo``: packaged examples explained, applied in a lab, fixed, autoscaled, and sharing a GPU."""
