"""The Pod Security Standards: the levels of namespaces, and the checks of each level in each version."""
