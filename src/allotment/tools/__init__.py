"""Pure functions from Kubernetes objects to a report value: check, doctor, explain, free, matches, migrate, plan."""
