"""Worlds at random, decided by kube-scheduler and by us: what differs is a defect of one of them."""
