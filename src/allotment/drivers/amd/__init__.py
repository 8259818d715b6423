"""AMD's driver (``gpu.amd.com``): GPUs and partitions, as they are or partitioned on demand."""
