"""A host with NVIDIA's driver and no GPU: a stand-in for NVML, in C, and made-up folders of the kernel."""
