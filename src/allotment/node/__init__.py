"""Simulated nodes: what a kubelet and a container runtime would do for the pods that were bound to them.

Nothing of a manifest is executed. A container's command is read by a small shell of our own (:mod:`.shell`) whose
programs (:mod:`.programs`) print what they would on a machine with the devices that the pod was given.
"""
