"""The cheapest machines on which pending pods can run: pure functions from objects and a catalog to a plan.

``pending_pods`` reads the pods, ``offerings`` the instance types. ``formulation`` makes a packing problem of both and
checks its bins with the engine. ``placement`` turns a packing into machines with a verified placement for every pod.
``reasons`` explains for every type why it was not chosen. ``planning`` combines these steps to a `ProvisioningPlan`.
Built on plans are ``relaxations`` (the saving from one relaxed requirement), ``consolidation`` (running nodes that can
be removed) and ``provisioning`` (manifests for planned machines).
"""
