"""What runs containers on a node: simulated, as processes of this machine, or in an OCI runtime."""
