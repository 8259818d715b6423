"""Exports the cluster's devices and claims as Prometheus metrics, with dashboards and alerts from the same source."""
