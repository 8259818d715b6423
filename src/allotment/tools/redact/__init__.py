"""``redact``: objects of a cluster with pseudonyms instead of names, to share with others.

Only listed fields of listed kinds are kept. Everything else is removed: commands, environment, volumes, addresses, free
texts. Drivers, attributes, capacities, CEL expressions, requests, classes, device taints, the releases and feature
gates of Kubernetes' own programs, and the structure of the cluster are kept, so that the tools give the same results.
The order is also preserved: pseudonyms sort like the original names.
"""

from allotment.tools.redact.objects import redacted as redacted
