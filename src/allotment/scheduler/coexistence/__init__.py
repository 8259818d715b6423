"""Coexistence with other schedulers that allocate the same devices: detection, double allocations and their resolution."""
