"""The input of the checks: the migration, its simulation, and the cluster's drivers and device plugins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from allotment.tools.migrate.plugin_requests import PluginRequest, Vendor
from allotment.tools.migrate.report import MigratedWorkload, Migration
from allotment.tools.migrate.request_mapping import HAMI
from allotment.tools.migrate.resource_names import vendor_of
from allotment.tools.migrate.simulation.cluster_nodes import plugged_resources
from allotment.tools.migrate.simulation.comparison import Comparison
from allotment.tools.migrate.simulation.expected_slices import DRIVERS

#: The vendor of the hardware that a driver is for.
VENDORS: Mapping[str, Vendor] = {**{driver: vendor for vendor, driver in DRIVERS.items()}, HAMI: "nvidia"}


@dataclass(frozen=True)
class Facts:
    """The input of the checks. ``cluster``: whether a snapshot or live cluster was given; a fleet has no state."""

    migration: Migration
    trial: Comparison | None
    cluster: bool = field(init=False)

    def __post_init__(self) -> None:
        target = self.migration.target
        object.__setattr__(self, "cluster", target.known and not target.fleet)

    @cached_property
    def moving(self) -> tuple[MigratedWorkload, ...]:
        """The workloads that DRA serves after the migration."""
        return tuple(
            workload
            for workload in self.migration.workloads
            if workload.decision.outcome in ("template", "claim", "class")
        )

    @cached_property
    def requests(self) -> tuple[PluginRequest, ...]:
        """The plugin requests of the moving workloads."""
        return tuple(
            request for workload in self.moving for container in workload.containers for request in container.requests
        )

    @cached_property
    def drivers(self) -> tuple[str, ...]:
        """The drivers that serve the moving workloads."""
        hami = any(HAMI in workload.decision.needs.classes for workload in self.moving)
        vendors = dict.fromkeys(
            request.vendor for request in self.requests if not (hami and request.usage == "fraction")
        )
        return (*(DRIVERS[vendor] for vendor in vendors), *((HAMI,) if hami else ()))

    @cached_property
    def driver_gates(self) -> tuple[str, ...]:
        """The gates of NVIDIA's driver that the new manifests need."""
        gates = [gate.name for workload in self.moving for gate in workload.decision.needs.driver_gates]
        if any("dynamic-mig" in words for words in self.migration.target.fleet):
            gates.append("DynamicMIG")
        return tuple(dict.fromkeys(gates))

    @cached_property
    def shares(self) -> bool:
        """Whether the driver must publish GPUs that several claims can share."""
        return any(workload.decision.needs.mode == "shared" for workload in self.moving)

    def published(self, driver: str) -> tuple[str, ...]:
        """The nodes for which a driver publishes slices now."""
        target = self.migration.target
        if not self.cluster:
            return ()
        names = (slice_.spec.node_name or "" for slice_ in target.slices if slice_.spec.driver == driver)
        return tuple(dict.fromkeys(name for name in names if name and name not in target.expected))

    @cached_property
    def plugged(self) -> Mapping[str, Mapping[str, int]]:
        """The resources that device plugins publish now, by node."""
        if not self.cluster:
            return {}
        found = {node.metadata.name: plugged_resources(node) for node in self.migration.target.nodes}
        return {name: resources for name, resources in found.items() if resources}

    def plugged_by(self, vendor: Vendor) -> tuple[str, ...]:
        """The nodes with a device plugin of a vendor."""
        return tuple(
            name for name, has in self.plugged.items() if any(vendor_of(resource) == vendor for resource in has)
        )

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The cluster's nodes that move to the driver; empty for a fleet, whose nodes are simulated."""
        return self.trial.moved if self.trial is not None and self.cluster else ()
