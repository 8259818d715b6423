"""Kills a lab repeatedly while clients write to it, and checks that no acknowledged write is lost.

``python -m tests.storm --cycles 500``; the tests include a short run.
"""
