"""Everything that is tried on Kubernetes' own programs: ``make test-kube``."""
