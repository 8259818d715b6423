"""Volumes in scheduling decisions: which nodes can use a pod's volumes, and which volumes its claims get there."""
