"""The packing problem: kinds of items, places for them, and the truth about what one place holds."""
