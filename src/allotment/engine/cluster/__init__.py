"""What the cluster holds: devices, pools, nodes, and what allocated claims use of them; changed by increments."""
