"""Recorded answers of Kubernetes, and the comparison of Allotment's answers with them."""
