"""From text to tree: tokens, expressions, macros."""
