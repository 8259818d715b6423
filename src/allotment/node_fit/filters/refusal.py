"""The result of a filter that rejects a node."""

from __future__ import annotations

from typing import NamedTuple


class Refusal(NamedTuple):
    """Kubernetes' texts for the rejection, and whether evicting pods of the node could make the pod fit."""

    texts: tuple[str, ...]
    preemption_may_help: bool = False
    cause: str = ""
    """Filter: ``unschedulable name taint affinity ports resources spread neighbours claim devices undecided``."""
