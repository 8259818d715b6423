"""Preemption: selects pods of lower priority as victims and evicts them."""
