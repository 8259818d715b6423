"""From a packing to machines on which every pod has its place, one by one, as the scheduler will do it."""
