"""Pods of lower priority make room: which, and how they are sent away."""
