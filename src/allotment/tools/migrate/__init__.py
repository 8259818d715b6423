"""``migrate``: what becomes of workloads that ask a device plugin for GPUs, and why."""
