"""Turns a packing into machines with a placement for every pod, verified in the scheduler's order."""
