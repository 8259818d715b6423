"""NVIDIA's driver (``gpu.nvidia.com``): whole GPUs, MIG devices, GPUs shared by time slices, MPS or memory, and GPUs
for virtual machines.
"""
