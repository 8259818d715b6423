"""Read-only inspection of a cluster: discovery, features, server facts, permissions and snapshots."""
