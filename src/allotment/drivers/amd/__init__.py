"""AMD's driver (``gpu.amd.com``): GPUs and partitions, published in their current modes or partitioned on demand."""
