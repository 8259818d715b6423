"""Reports why pods are pending: Kubernetes' message, preceded by what would make the pod schedulable."""
