"""Kubernetes' own cluster-autoscaler with our machines and our prices: behind its two gRPC protocols.

``groups`` makes node groups of the catalogue, ``cloud`` orders and gives back their machines through a provider,
``judging`` finds how many pods an option really serves, ``chooser`` answers with the cheapest; ``program`` serves both.
"""
