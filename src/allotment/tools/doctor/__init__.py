"""What is wrong with a cluster's devices, claims and drivers: findings with evidence and remedy."""
