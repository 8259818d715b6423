"""What checks look at: the migration, how its trial went, and what the cluster has of drivers and device plugins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from allotment.tools.migrate.plugin_requests import Ask, Vendor
from allotment.tools.migrate.report import Migrated, Migration
from allotment.tools.migrate.request_mapping import HAMI
from allotment.tools.migrate.resource_names import vendor_of
from allotment.tools.migrate.simulation.cluster_nodes import plugged_resources
from allotment.tools.migrate.simulation.comparison import Comparison
from allotment.tools.migrate.simulation.expected_slices import DRIVERS

#: The vendor of the hardware that a driver is for.
VENDORS: Mapping[str, Vendor] = {**{driver: vendor for vendor, driver in DRIVERS.items()}, HAMI: "nvidia"}


@dataclass(frozen=True)
class Facts:
    """``cluster``: whether a real cluster was given, as a snapshot or live; a fleet says nothing of what runs."""

    migration: Migration
    trial: Comparison | None
    cluster: bool = field(init=False)

    def __post_init__(self) -> None:
        target = self.migration.target
        object.__setattr__(self, "cluster", target.known and not target.fleet)

    @cached_property
    def moving(self) -> tuple[Migrated, ...]:
        """The workloads that DRA serves afterwards."""
        return tuple(one for one in self.migration.workloads if one.decision.outcome in ("template", "claim", "class"))

    @cached_property
    def asks(self) -> tuple[Ask, ...]:
        """What those ask for."""
        return tuple(ask for one in self.moving for container in one.containers for ask in container.asks)

    @cached_property
    def drivers(self) -> tuple[str, ...]:
        """The drivers that serve them."""
        hami = any(HAMI in one.decision.needs.classes for one in self.moving)
        vendors = dict.fromkeys(ask.vendor for ask in self.asks if not (hami and ask.sort == "fraction"))
        return (*(DRIVERS[vendor] for vendor in vendors), *((HAMI,) if hami else ()))

    @cached_property
    def driver_gates(self) -> tuple[str, ...]:
        """The gates of NVIDIA's driver that the new manifests need."""
        gates = [gate.name for one in self.moving for gate in one.decision.needs.driver_gates]
        if any("dynamic-mig" in words for words in self.migration.target.fleet):
            gates.append("DynamicMIG")
        return tuple(dict.fromkeys(gates))

    @cached_property
    def shares(self) -> bool:
        """Whether GPUs must be published as ones that several claims may hold."""
        return any(one.decision.needs.mode == "shared" for one in self.moving)

    def published(self, driver: str) -> tuple[str, ...]:
        """The nodes for which a driver publishes slices now."""
        target = self.migration.target
        if not self.cluster:
            return ()
        names = (one.spec.node_name or "" for one in target.slices if one.spec.driver == driver)
        return tuple(dict.fromkeys(name for name in names if name and name not in target.expected))

    @cached_property
    def plugged(self) -> Mapping[str, Mapping[str, int]]:
        """What device plugins publish now, by node."""
        if not self.cluster:
            return {}
        found = {node.metadata.name: plugged_resources(node) for node in self.migration.target.nodes}
        return {name: resources for name, resources in found.items() if resources}

    def plugged_by(self, vendor: Vendor) -> tuple[str, ...]:
        """The nodes with a device plugin of a vendor."""
        return tuple(name for name, has in self.plugged.items() if any(vendor_of(one) == vendor for one in has))

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that go to the driver, as far as they are known; of a fleet they are made up."""
        return self.trial.moved if self.trial is not None and self.cluster else ()
