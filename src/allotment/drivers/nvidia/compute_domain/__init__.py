"""ComputeDomains: NVLink between nodes for a workload's lifetime, on a simulated fabric.

A user makes a ComputeDomain. The controller answers with a claim template for the workload and a DaemonSet that runs
nowhere yet. A pod with a claim from that template is scheduled as any other; when its node's driver prepares the claim,
it labels the node, so that the DaemonSet's pod starts there, and waits until that is ready. So a domain is wherever its
workload is, and nodes need not be chosen beforehand.
"""
