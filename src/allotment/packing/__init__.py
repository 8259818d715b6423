"""Packs items of a few kinds into the cheapest set of bins, with a proven lower bound. Independent of Kubernetes.

``problem`` has the types of a problem and its solution, ``solve`` the entry points; ``simple_bound``, ``dual_bound``
and ``column_generation`` prove lower bounds, and ``baselines`` has the rules of other autoscalers, for comparison.
The caller's `FeasibilityCheck` decides which loads a bin holds, so that a packing is as exact as that check.
"""
