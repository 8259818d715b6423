"""The Python API: one function for each question, with typed results, and what they read.

``cluster`` and ``load`` are the inputs; each other public module answers one question. Nothing here prints, exits or
parses options: that is the command line's work, which calls these functions.
"""
