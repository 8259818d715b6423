"""Pre-flight checks: conditions that a cluster must meet before the new manifests are applied."""
