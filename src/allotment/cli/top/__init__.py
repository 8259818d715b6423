"""``allot top``: devices and pending pods, live in a terminal."""
