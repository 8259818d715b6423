"""API aggregation: groups of other API servers that this server offers as its own (APIServices)."""
