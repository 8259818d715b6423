"""Replays a trace of pods on a list of nodes under placement policies: GPU allocation, fragmentation and cost."""
