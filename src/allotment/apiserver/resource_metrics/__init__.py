"""The API ``metrics.k8s.io/v1beta1`` of a lab, which metrics-server adds to a cluster.

Simulated containers use nothing, so users state the usage in annotations of pods and nodes.
"""
