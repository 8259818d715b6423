"""Verification of any DRA driver: checks that call the driver like a kubelet."""
