"""``redact``: the objects of a cluster under pseudonyms, for people who may not see the names.

What is kept is listed, kind by kind; everything else is left out: commands, environment, volumes, addresses, texts that
anybody may have written. Drivers, attributes, capacities, CEL, requests, classes, taints of devices and the shape of
the cluster stay, so that the answers of the tools are the same. Order is kept, too: of two names the one that sorts
first has the pseudonym that sorts first.
"""

from allotment.tools.redact.objects import redacted as redacted
