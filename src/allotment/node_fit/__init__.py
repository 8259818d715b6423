"""Node fit: pod requirements, free node resources, and kube-scheduler's filters and scores as pure functions.

``PodRequirementsCache`` reads the requirements of pods, ``NodeCache`` tracks what each node has, ``filters`` return why
a node does not fit, and a ``NodeFitTable`` caches the results for equal pods. The scheduler uses them for the nodes of
a cluster, the planner for nodes that do not exist yet.
"""
