"""A node with a device plugin: the pods it admits, and the devices they get.

A fleet describes hardware, but not the configuration of its device plugin: whether pods share GPUs, and the resource
names of partitions. A fleet's node therefore has an offer for each possible configuration, and its first pod selects
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from allotment.engine.cluster.node_selection import NodeFacts
from allotment.explanation.node_eligibility import EligibilityNode, why_excluded
from allotment.model.core import Pod, Taint
from allotment.tools.migrate.plugin_requests import PluginRequest
from allotment.tools.migrate.simulation.device_kind import DeviceCount
from allotment.tools.migrate.simulation.plugin_supply import Supply

#: The sharing of GPUs: strategy, and pods per GPU.
Form: TypeAlias = tuple[str, int]
PLAIN: Final[Form] = ("", 0)
FRACTIONS: Final[Form] = ("fractions", 0)


def form_of(wants: Iterable[PluginRequest]) -> Form:
    """The sharing of GPUs that a pod's requests need."""
    for want in wants:
        if want.usage == "fraction":
            return FRACTIONS
        if want.usage == "share" and want.sharing is not None:
            return (want.sharing.strategy or "time-slicing", want.sharing.replicas)
    return PLAIN


class Offer(NamedTuple):
    """A possible plugin configuration of a node. ``form`` None: as in the cluster, for requests by resource name."""

    labels: Mapping[str, str]
    supply: Supply
    form: Form | None = PLAIN

    def suits(self, form: Form) -> bool:
        """Whether it serves pods that need this sharing of GPUs."""
        return self.form == form or (self.form is None and form != FRACTIONS)


class PluginNode:
    """A node with its remaining resources. ``given``: it was read from a cluster, not derived from a fleet."""

    def __init__(
        self, name: str, offers: Sequence[Offer], taints: Sequence[Taint] = (), *, given: bool = False
    ) -> None:
        self.name, self.given = name, given
        self._taints = tuple(taints)
        self._offers = tuple(offers)

    @property
    def offers(self) -> tuple[Offer, ...]:
        """The possible plugin configurations; a single one after the node has a pod."""
        return self._offers

    def labels(self) -> Mapping[str, str]:
        """The labels of the first possible configuration."""
        return self._offers[0].labels if self._offers else {}

    def admits(self, pod: Pod, form: Form) -> bool:
        """Whether the pod's node requirements and tolerations allow this node, in a configuration for ``form``."""
        return any(not self._excluded(pod, offer) for offer in self._offers if offer.suits(form))

    def place(self, pod: Pod, wants: Sequence[PluginRequest]) -> tuple[DeviceCount, ...] | str:
        """Take the requested resources for a pod; the devices, or the reason why it does not fit."""
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
        return f"the pod excludes this node: {why}" if why else ""


def _mismatch(form: Form) -> str:
    match form:
        case ("fractions", _):
            return "the node's GPUs are not divided into fractions"
        case ("", 0):
            return "the node has no GPUs, or they are shared"
        case (strategy, replicas):
            return f"the node's GPUs are not shared by {replicas} pods ({strategy})"
