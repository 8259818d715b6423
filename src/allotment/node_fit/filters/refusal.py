"""What a filter answers about a node that will not do."""

from __future__ import annotations

from typing import NamedTuple


class Refusal(NamedTuple):
    """Kubernetes' words for it, and whether it could be otherwise without some of the node's pods."""

    texts: tuple[str, ...]
    preemption_may_help: bool = False
    cause: str = ""
    """Which filter: ``unschedulable name taint affinity ports resources spread neighbours claim devices undecided``."""
