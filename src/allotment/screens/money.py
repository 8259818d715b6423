"""The cost of the machines of a cluster, the parts that claims hold, the idle rest, and a plan for pending pods.

Prices are those of the catalog, as in `allot catalog` and in the exporter's metrics. A node without a known price is
not counted; its products are named. Devices that several nodes can use belong to no machine and have no price.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum

from allotment.api.plan import plan as plan_machines
from allotment.api.plans.catalog import select_catalog
from allotment.exporter.costs import NodePrices
from allotment.exporter.device_usage import ClusterUsage, NodeUsage
from allotment.exporter.state import ExporterState
from allotment.fleet.catalog.labels import INSTANCE_TYPE
from allotment.model.meta import ObjectKey, Value
from allotment.planning.machine_plan import MachinePlan
from allotment.screens.header import Screen, command, header
from allotment.screens.holders import Holders, key_of
from allotment.watched.view import ClusterView

CURRENCY = "USD"


class CostShare(Value, frozen=True, omit_defaults=False):
    """The devices of a namespace, workload or product, and their USD per hour: the part of the price of their nodes.

    ``per_hour``: None if the price of any of the nodes is not known.
    """

    name: str
    devices: int
    per_hour: float | None


class PlannedGroup(Value, frozen=True):
    """Equal machines of a plan. ``instance``: the key in the catalog; ``usd_per_hour``: of one of them."""

    instance: str
    count: int
    usd_per_hour: str
    zone: str = ""
    capacity_type: str = ""


class UnservedSummary(Value, frozen=True):
    """A pod that no machine of the plan serves, with the reason."""

    pod: str
    code: str
    text: str


class PlanRelaxation(Value, frozen=True):
    """A relaxed requirement, the total of the plan with it, and the saving, in USD per hour."""

    what: str
    total: str
    saves: str


class PlannedCost(Value, frozen=True):
    """The cheapest machines for the pending pods, as `allot plan` finds them.

    ``bound``: no machines cost less; ``gap_percent``: how far the plan is above it. ``relaxations``: what it would cost
    with one requirement less.
    """

    verdict: str
    machines: tuple[PlannedGroup, ...] = ()
    usd_per_hour: str = "0"
    bound: str | None = None
    gap_percent: float | None = None
    unserved: tuple[UnservedSummary, ...] = ()
    relaxations: tuple[PlanRelaxation, ...] = ()


class MoneyScreen(Screen, frozen=True):
    """USD per hour of all priced nodes with devices, of the parts that claims hold, and of the rest.

    ``unpriced``: products of nodes whose price is not known; ``unpriced_types``: the instance types of these nodes, for
    which a catalog of one's own can state one. ``devices_held`` and ``devices_free``: of all nodes. ``plan``: None
    unless it was requested.
    """

    currency: str
    per_hour: float
    allocated: float
    idle: float
    nodes_priced: int = 0
    nodes_unpriced: int = 0
    unpriced: tuple[str, ...] = ()
    unpriced_types: tuple[str, ...] = ()
    devices_held: int = 0
    devices_free: int = 0
    by_namespace: tuple[CostShare, ...] = ()
    by_workload: tuple[CostShare, ...] = ()
    by_product: tuple[CostShare, ...] = ()
    plan: PlannedCost | None = None


@dataclass(slots=True)
class _Sum:
    devices: int = 0
    usd: list[float] = field(default_factory=list)
    is_known: bool = True

    def add(self, usd: float | None) -> None:
        if usd is None:
            self.is_known = False
        else:
            self.usd.append(usd)

    def share(self, name: str) -> CostShare:
        return CostShare(name=name, devices=self.devices, per_hour=_cents(fsum(self.usd)) if self.is_known else None)


def money(view: ClusterView, *, catalog: Sequence[str] = (), with_plan: bool = False) -> MoneyScreen:
    """Return the costs of a cluster. ``catalog``: as for `allotment.plan`. ``with_plan``: plan machines for pending
    pods, which may take seconds. Raises InputError."""
    usages = view.cached("screens.usage", lambda: _usages(view))
    prices = NodePrices(select_catalog(catalog).selected_types)
    nodes = {name: prices.of(_labels(view, name), usage.held.pieces).usd for name, usage in usages.items() if name}
    whole = [usd for name, usd in nodes.items() if usd is not None and usages[name].held.pieces]
    holders = Holders(view)
    claims: dict[ObjectKey, _Sum] = {}
    for name, usage in usages.items():
        for holder, part in usage.held.by_holder.items():
            usd = nodes.get(name)
            claims.setdefault(holder.claim, _Sum()).add(usd * part if usd is not None else None)
    allocated = fsum(usd for found in claims.values() for usd in found.usd)
    unpriced = [name for name, usage in usages.items() if name and nodes[name] is None and usage.held.pieces]
    for device in (device for node in view.free.nodes for device in node.devices):
        for user in device.holders:
            if (found := claims.get(key_of(user.claim))) is not None:
                found.devices += 1
    planned = plan_machines(cluster=view.cluster, catalog=catalog) if with_plan else None
    return MoneyScreen(
        cluster=header(view),
        command=command(view, "plan"),
        currency=CURRENCY,
        per_hour=_cents(fsum(whole)),
        allocated=_cents(allocated),
        idle=_cents(max(fsum(whole) - allocated, 0.0)),
        nodes_priced=len(whole),
        nodes_unpriced=len(unpriced),
        unpriced=tuple(dict.fromkeys(product for name in unpriced for _, product, _ in usages[name].devices)),
        unpriced_types=tuple(sorted({_labels(view, name).get(INSTANCE_TYPE, "") for name in unpriced} - {""})),
        devices_held=view.free.count("in-use"),
        devices_free=view.free.count("free"),
        by_namespace=_summed(claims, lambda key: key.namespace),
        by_workload=_summed(claims, lambda key: holders.of(str(key)).workload or f"ResourceClaim {key}"),
        by_product=_products(usages, nodes),
        plan=planned_cost(planned) if planned is not None else None,
    )


def planned_cost(found: MachinePlan) -> PlannedCost:
    """Return the summary of a plan."""
    is_bounded = bool(found.bound) or not found.machines
    groups: dict[tuple[str, str, str, str], int] = {}
    for machine in found.machines:
        key = (machine.instance, str(machine.usd_per_hour), machine.zone, machine.capacity_type)
        groups[key] = groups.get(key, 0) + 1
    return PlannedCost(
        verdict=found.verdict,
        machines=tuple(
            PlannedGroup(instance=instance, count=count, usd_per_hour=usd, zone=zone, capacity_type=capacity)
            for (instance, usd, zone, capacity), count in groups.items()
        ),
        usd_per_hour=str(found.total),
        bound=str(found.bound) if is_bounded else None,
        gap_percent=round(found.gap * 100, 2) if is_bounded else None,
        unserved=tuple(UnservedSummary(pod=str(pod.pod), code=pod.code, text=pod.text) for pod in found.unserved),
        relaxations=tuple(
            PlanRelaxation(what=each.what, total=str(each.total), saves=str(each.saves)) for each in found.relaxations
        ),
    )


def _usages(view: ClusterView) -> dict[str, NodeUsage]:
    return ClusterUsage(ExporterState.of(view.inputs.cluster, view.inputs.features)).by_node()


def _labels(view: ClusterView, node: str) -> Mapping[str, str]:
    found = view.find("Node", ObjectKey("", node))
    return found.metadata.labels if found is not None else {}


def _products(usages: Mapping[str, NodeUsage], nodes: Mapping[str, float | None]) -> tuple[CostShare, ...]:
    """The parts of the nodes' prices by product; a node with several is divided by the number of devices."""
    found: dict[str, _Sum] = {}
    for name, usage in usages.items():
        total = usage.devices.total()
        for (_, product, _), count in usage.devices.items():
            part = found.setdefault(product, _Sum())
            part.devices += count
            usd = nodes.get(name)
            part.add(usd * count / total if usd is not None else None)
    return _sorted(found)


def _summed(claims: Mapping[ObjectKey, _Sum], name_of: Callable[[ObjectKey], str]) -> tuple[CostShare, ...]:
    found: dict[str, _Sum] = {}
    for key, each in claims.items():
        part = found.setdefault(name_of(key), _Sum())
        part.devices += each.devices
        part.usd += each.usd
        part.is_known = part.is_known and each.is_known
    return _sorted(found)


def _sorted(found: Mapping[str, _Sum]) -> tuple[CostShare, ...]:
    """The most expensive first; those without a known price last."""
    shares = [each.share(name) for name, each in found.items()]
    return tuple(sorted(shares, key=lambda share: (share.per_hour is None, -(share.per_hour or 0), share.name)))


def _cents(usd: float) -> float:
    """USD to a hundredth of a cent, as the prices of the catalog."""
    return round(usd, 4)
