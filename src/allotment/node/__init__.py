"""Nodes: the kubelet and container runtime behavior for the pods that are bound to them.

One agent serves any number of nodes (:mod:`.kubelet`, :mod:`.agent`). Claims are prepared by drivers (:mod:`.claims`,
:mod:`.plugins`), containers run in a runtime (:mod:`.runtimes`). On a simulated node, the default, no part of a
manifest is executed: a built-in shell (:mod:`.shell_language`) interprets a container's command, and its programs
(:mod:`.programs`) print what they would on a machine with the devices allocated to the pod.
"""
