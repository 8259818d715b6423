"""What cluster-autoscaler asks of an expander and what it is answered, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from allotment.model.trees import Tree


class ExpansionOption(NamedTuple):
    """A group that could grow by ``nodes``, and the Pods that, as the autoscaler sees it, would then have a place."""

    group: str
    nodes: int
    debug: str = ""
    pods: tuple[Tree, ...] = ()


class Expander(Protocol):
    """Says which groups may grow. The autoscaler waits five seconds, and keeps all options if no answer came."""

    async def best_options(self, options: Sequence[ExpansionOption], nodes: Mapping[str, Tree]) -> Sequence[str]:
        """Ids of the groups that are left to choose from; none: no group grows in this round.

        ``nodes``: by the group's id, a node as its next will be.
        """
        ...
