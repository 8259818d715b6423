"""The kube-scheduler of the lab: assigns pods to nodes, allocates devices to their claims, and reports why pods are
pending.
"""
