"""Builds the files of a release into ``dist``: ``python -m release``.

The bytes of each file depend only on the commit, the locked dependencies and the Python that builds them: every file
has the time of the commit, and archives have no owners and a fixed order.
"""
