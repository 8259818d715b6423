"""How programs see a cluster: one ``Client`` for store, lab and real cluster, and caches over it."""
