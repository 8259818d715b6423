"""A node with a device plugin: the pods it admits, and the devices they get.

A fleet says what hardware there is, not how its device plugin is set up: whether GPUs are handed out several times,
under which names pieces go. Such a node has several offers, and its first pod decides which of them it makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from allotment.engine.cluster.node_selection import NodeFacts
from allotment.model.core import Pod, Taint
from allotment.tools.explain.node_eligibility import EligibilityNode, why_excluded
from allotment.tools.migrate.plugin_requests import PluginRequest
from allotment.tools.migrate.simulation.device_kind import DeviceCount
from allotment.tools.migrate.simulation.plugin_supply import Supply

#: How GPUs are handed out: by which means several times, and how many.
Form: TypeAlias = tuple[str, int]
PLAIN: Final[Form] = ("", 0)
FRACTIONS: Final[Form] = ("fractions", 0)


def form_of(wants: Iterable[PluginRequest]) -> Form:
    """How GPUs must be handed out for a pod."""
    for want in wants:
        if want.usage == "fraction":
            return FRACTIONS
        if want.usage == "share" and want.sharing is not None:
            return (want.sharing.strategy or "time-slicing", want.sharing.replicas)
    return PLAIN


class Offer(NamedTuple):
    """One possible plugin setup of a node. ``form`` None: as in the cluster, for requests by resource name."""

    labels: Mapping[str, str]
    supply: Supply
    form: Form | None = PLAIN

    def suits(self, form: Form) -> bool:
        """Whether pods that need GPUs handed out in a form may come."""
        return self.form == form or (self.form is None and form != FRACTIONS)


class PluginNode:
    """A node and what it can still give. ``given``: it is a cluster's own, as it was read."""

    def __init__(
        self, name: str, offers: Sequence[Offer], taints: Sequence[Taint] = (), *, given: bool = False
    ) -> None:
        self.name, self.given = name, given
        self._taints = tuple(taints)
        self._offers = tuple(offers)

    @property
    def offers(self) -> tuple[Offer, ...]:
        """The ways in which it may still be set up: one, as soon as it has a pod."""
        return self._offers

    def labels(self) -> Mapping[str, str]:
        """The labels that it has as it stands."""
        return self._offers[0].labels if self._offers else {}

    def admits(self, pod: Pod, form: Form) -> bool:
        """Whether the pod's own demands on nodes let it come here, in one of the node's forms."""
        return any(not self._excluded(pod, offer) for offer in self._offers if offer.suits(form))

    def place(self, pod: Pod, wants: Sequence[PluginRequest]) -> tuple[DeviceCount, ...] | str:
        """What the pod gets here, or why nothing."""
        form = form_of(wants)
        reason = ""
        for offer in self._offers:
            if not offer.suits(form):
                continue
            excluded = self._excluded(pod, offer)
            if excluded:
                reason = reason or excluded
                continue
            got = offer.supply.take(wants)
            if got is not None:
                self._offers = (offer,)
                return got
            reason = f"the device plugin has too few resources left: {offer.supply.lacks(wants)}"
        return reason or _mismatch(form)

    def _excluded(self, pod: Pod, offer: Offer) -> str:
        why = why_excluded(pod, EligibilityNode(NodeFacts(self.name, offer.labels), self._taints))
        return f"the pod excludes it: {why}" if why else ""


def _mismatch(form: Form) -> str:
    match form:
        case ("fractions", _):
            return "its GPUs are not divided into fractions"
        case ("", 0):
            return "its GPUs are shared, or it has none"
        case (strategy, replicas):
            return f"its GPUs are not shared by {replicas} pods ({strategy})"
