"""The demo: packaged examples explained, applied in a lab, mended, bought machines for, and sharing a GPU."""
