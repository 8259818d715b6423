"""The HorizontalPodAutoscaler controller: sets the replicas of workloads from metrics."""
