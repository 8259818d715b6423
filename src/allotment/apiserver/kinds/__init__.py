"""The built-in kinds: names, versions and rules of each, one module per family."""
