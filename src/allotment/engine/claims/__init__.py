"""Compilation of a pod's claims, and the test of whether a device matches a request."""
