"""``allot migrate``: options, text output, and writing manifests."""
