"""The cluster's devices and claims as metrics, and the dashboards and alerts that read them, from one definition."""
