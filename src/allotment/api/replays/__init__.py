"""The replay of traces: the policies to compare, and the processes that share the work."""
