"""The arguments of each command; no implementation is imported, so that ``allot --help`` starts quickly."""
