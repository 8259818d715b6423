"""Unmodified clients with a running lab: kubectl, helm, the Python clients, a Go informer."""
