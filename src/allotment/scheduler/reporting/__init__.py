"""What pods that wait are told: Kubernetes' own sentence, and in front of it what it would take."""
