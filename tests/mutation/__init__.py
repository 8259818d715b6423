"""Which faults in the product do its tests see? Plants a sample of small faults and runs the nearest tests."""
