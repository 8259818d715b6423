"""Access to a live cluster: connection, resource arguments, tables, manifests."""
