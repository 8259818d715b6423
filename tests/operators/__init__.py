"""Public operators, built from their published modules, and their own tests, against labs: ``make test-operators``."""
