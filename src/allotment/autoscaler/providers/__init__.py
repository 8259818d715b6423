"""Clouds: ``simulated`` is the lab's, ``karpenter`` orders through a Karpenter that runs already."""
