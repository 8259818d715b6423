"""How an object changes by a request: patches of four kinds, and who manages which field."""
