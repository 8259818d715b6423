"""Plants faults in a lab, a driver and their storage, and checks that the suite that must notice each does so.

``make test-the-tests`` runs all. The suites are those of :mod:`tests.storm` and :mod:`tests.power_cut`.
"""
