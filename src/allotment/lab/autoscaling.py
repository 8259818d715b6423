"""Autoscaler options of a lab: instance types of its simulated cloud, faults and provisioning delay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from allotment.autoscaler.options import AutoscalerOptions, Consolidation, Planner
from allotment.autoscaler.providers.faults import SimulatedFault, parse_faults
from allotment.autoscaler.providers.simulated import simulated_cloud
from allotment.fleet.catalog import CatalogProblem, InstanceType, catalog, merged, read_catalog
from allotment.model.features import Features
from allotment.planning.limits import PlanLimits


class CatalogError(ValueError):
    """Raised for an invalid catalog; ``problems`` lists those of its rows."""

    def __init__(self, message: str, problems: Sequence[CatalogProblem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class Autoscale(NamedTuple):
    """The autoscaler of a lab, with the options of ``allot up``. ``types``: the instance types on offer.

    ``seconds``: the simulated provisioning delay. ``planner``: an alternative to the built-in planner.
    """

    types: tuple[InstanceType, ...]
    faults: tuple[SimulatedFault, ...] = ()
    limits: PlanLimits = PlanLimits()
    seconds: float = 2.0
    plan_seconds: float = 2.0
    registration: float = 900.0
    shortage: float = 60.0
    vain: float = 60.0
    together: float = 60.0
    consolidation: Consolidation = "cheaper"
    consolidate_after: float = 60.0
    budget: str = "10%"
    dry_run: bool = False
    planner: Planner | None = None

    def options(self, features: Features) -> AutoscalerOptions:
        """The options of the autoscaler program."""
        cloud = simulated_cloud(self.types, self.faults, seconds=self.seconds, kube=features.kube, closed=True)
        return AutoscalerOptions(
            provider=cloud, catalog=self.types, features=features, limits=self.limits, planner=self.planner,
            plan_seconds=self.plan_seconds, registration=self.registration,
            shortage_backoff=self.shortage,
            purchase_backoff=self.vain, opening_window=self.together, consolidation=self.consolidation,
            consolidate_after=self.consolidate_after, budget=self.budget, dry_run=self.dry_run,
        )  # fmt: skip

    @property
    def vendors(self) -> tuple[str, ...]:
        """The vendors of the accelerators on offer."""
        return tuple(
            dict.fromkeys(instance.accelerator.vendor for instance in self.types if instance.accelerator is not None)
        )


def autoscale_of(words: str | Autoscale | None, cloud: Iterable[str] = ()) -> Autoscale | None:
    """Parse comma-separated providers and files; without any, all types are on offer.

    Raises CatalogError and InvalidFault.
    """
    if words is None or isinstance(words, Autoscale):
        return words
    return Autoscale(types_of(words.split(",")), parse_faults(cloud))


def types_of(words: Iterable[str]) -> tuple[InstanceType, ...]:
    """The types of these providers, plus those of the given files, which override packaged ones.

    Without providers, the types of all. Raises CatalogError.
    """
    wanted = [word.strip() for word in words if word.strip()]
    types = catalog()
    for file in (word for word in wanted if Path(word).is_file()):
        rows, problems = read_catalog(Path(file).read_text("utf-8"), file)
        if problems:
            raise CatalogError(f"{file}: invalid rows: {len(problems)}", problems)
        types = merged(types, rows)
    providers = {word for word in wanted if not Path(word).is_file()}
    if unknown := providers - {instance.provider for instance in types}:
        known = ", ".join(sorted({instance.provider for instance in types}))
        raise CatalogError(f"{min(unknown)!r} is neither a file nor a known provider (known: {known})")
    return tuple(instance for instance in types if not providers or instance.provider in providers)
