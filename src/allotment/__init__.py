"""Dynamic Resource Allocation for GPUs: Kubernetes' own answers, with the reasons."""

__version__ = "0.1.0"
