"""A host with NVIDIA's driver and no GPU: a fake NVML, in C, and temporary folders with the kernel's files."""
