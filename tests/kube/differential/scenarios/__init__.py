"""Random scenarios of small clusters and pods, by theme."""
