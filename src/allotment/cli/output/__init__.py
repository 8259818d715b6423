"""Output of commands: console, tables, manifests, errors."""
