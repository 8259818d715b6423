"""Kills a lab again and again while clients write to it, and looks whether it kept its word.

``python -m tests.storm --cycles 500``; a short form of it is among the tests.
"""
