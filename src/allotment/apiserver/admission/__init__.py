"""Admission: webhooks and policies that users configure, and the plugins that Kubernetes enables by default."""
