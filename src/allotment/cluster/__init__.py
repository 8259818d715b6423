"""Access to a cluster: one ``Client`` protocol for store, lab and real clusters, and caches on top of it."""
