"""The interface (Protocol) and values of the external expander that cluster-autoscaler calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from allotment.model.trees import Tree


class ExpansionOption(NamedTuple):
    """A group that can be increased by ``nodes``, and the Pods that the autoscaler expects to fit on them."""

    group: str
    nodes: int
    debug: str = ""
    pods: tuple[Tree, ...] = ()


class Expander(Protocol):
    """Chooses the groups to increase. Without an answer within five seconds the autoscaler keeps all options."""

    async def best_options(self, options: Sequence[ExpansionOption], nodes: Mapping[str, Tree]) -> Sequence[str]:
        """Return the IDs of the remaining groups; if there are none, no group is increased in this round.

        ``nodes``: the template node of each group, by group ID.
        """
        ...
