"""Turns pods that wait into machines: watches, plans, provisions through a provider, and gives back what is idle.

``program`` is the loop, on any cluster; ``provider`` is all that a cloud has to be able to do.
"""
