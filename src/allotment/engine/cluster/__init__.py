"""The cluster's state: nodes, pools, devices and their usage by allocated claims, updated incrementally."""
