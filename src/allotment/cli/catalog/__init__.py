"""``allot catalog``: selection of instance types, their tables, and manifests of their nodes."""
