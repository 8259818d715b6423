"""``allot plan``: options, search, and output formats."""
