"""Support for Kubernetes' cluster-autoscaler: a cloud provider and an expander, served over its two gRPC protocols.

``node_groups`` creates node groups from the catalog, ``cloud_provider`` orders and releases their machines,
``option_evaluation`` determines how many pods an option serves, ``expander`` selects the cheapest; ``program``
serves both.
"""
