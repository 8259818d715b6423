"""Verdicts on every instance type, and the wording of a plan."""
