"""Running nodes that can be removed or replaced, with a verified target node for every pod."""
