"""A trace of pods on a list of nodes under a policy: how much gets devices, what is left in pieces, what it costs."""
