"""Coexistence with other schedulers that allocate the same devices: detection and resolution of double allocations."""
