"""Objects in detail, laid out as ``kubectl describe`` does: one module for each kind that has a layout of its own."""
