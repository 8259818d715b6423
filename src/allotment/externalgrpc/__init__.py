"""cluster-autoscaler's two protocols over gRPC: a cloud provider of its own, and an expander; byte for byte.

``wire`` is made from ``protos`` by ``scripts/protos``. Behind the servers stand plain values and a Protocol; what a
machine costs and holds is not known here.
"""
