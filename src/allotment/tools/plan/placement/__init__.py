"""From a packing to machines with a placement for every pod, verified in the scheduler's order."""
