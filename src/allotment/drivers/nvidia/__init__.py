"""NVIDIA's GPUs: whole, cut by MIG, time-sliced, shared by MPS or by the mebibyte, handed to virtual machines."""
