"""``migrate``: converts workloads that request GPUs from a device plugin to DRA, and explains each decision."""
