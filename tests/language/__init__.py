"""Checks of the project's language: the words of ``docs/language.toml``, applied to everything that people read.

``python -m tests.language [PATH…]`` prints each word to avoid, with what to use; ``--metrics`` prints the totals.
"""
