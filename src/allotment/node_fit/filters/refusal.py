"""The result of a filter that rejects a node."""

from __future__ import annotations

from typing import NamedTuple


class Refusal(NamedTuple):
    """Kubernetes' texts for the rejection, and whether evicting pods of the node could make the pod fit."""

    texts: tuple[str, ...]
    preemption_may_help: bool = False
    cause: str = ""
    """Filter: ``unschedulable name taint affinity ports resources volumes volume-in-use volume-limits spread neighbours
    claim devices undecided``, or ``device-resources`` if devices use more cpu, memory or huge pages than the node has
    left."""
    requests: tuple[tuple[str, int], ...] = ()
    """The requests of the pod and its devices together, if devices use cpu, memory or huge pages of the node."""
    shared_claim: str = ""
    """A claim of another pod (namespace/name) that stands for resources of the node, so that it cannot be shared."""
