"""What each part of Allotment must be allowed to do in a cluster, and nothing more: the one place that says it."""
