"""Cuts the power of a simulated disk at every moment, and checks that nothing acknowledged is lost.

A library records the file operations of real programs. Of what was not synced at a moment, a power cut keeps any part:
:mod:`tests.power_cut.disk` derives what may then be on the disk, and the subject of the test must be able to continue
from each of these states. ``python -m tests.power_cut --points 10000``; the tests include a sample.
"""
