"""The cheapest set of bins for items of a few kinds, with a proven lower bound. Knows nothing of Kubernetes.

``problem`` is the question, ``solve`` answers it, ``bound`` proves how far from the best any answer can be, ``rivals``
are the rules of other autoscalers, for comparison. What a bin holds is asked of the caller (``holds``), so that the
answer is as true as the caller's check.
"""
