"""The gRPC protocols of cluster-autoscaler for external cloud providers and expanders.

``scripts/protos`` generates ``wire`` from ``protos``. The servers call a Protocol that takes and returns plain values;
this package contains no prices or machine types.
"""
