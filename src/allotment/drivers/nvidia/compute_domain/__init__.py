"""ComputeDomains: NVLink between nodes for a workload's lifetime, on a simulated fabric.

A user creates a ComputeDomain. The controller creates a claim template for the workload, and a DaemonSet without pods.
A pod with a claim from that template is scheduled like any other. When its node's driver prepares the claim, it labels
the node, so that a pod of the DaemonSet starts there, and waits until that pod is ready. So the domain follows its
workload, and its nodes need not be chosen in advance.
"""
