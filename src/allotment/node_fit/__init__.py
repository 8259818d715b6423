"""Where a pod may go: what it asks, what nodes have left, and Kubernetes' filters and scores, as pure functions.

``Demands`` reads what a pod asks, ``Machines`` keeps what each node has, ``filters`` say why a node will not do, and a
``Table`` keeps the answers for equal pods. The scheduler decides with them, and so does the planner, about nodes that
do not exist yet.
"""
