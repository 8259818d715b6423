"""Pending pods with their claims and volumes, grouped by equal requirements."""
