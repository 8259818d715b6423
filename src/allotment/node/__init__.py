"""Nodes: what a kubelet and a container runtime do for the pods that were bound to them.

One agent serves any number of nodes (:mod:`.kubelet`, :mod:`.agent`). Claims are prepared by drivers (:mod:`.claims`,
:mod:`.plugins`), containers run in a runtime (:mod:`.runtimes`). On a simulated node, the usual one, nothing of a
manifest is executed: a container's command is read by a small shell of our own (:mod:`.shell`) whose programs
(:mod:`.programs`) print what they would on a machine with the devices that the pod was given.
"""
