"""The tables of ``allot free``."""
