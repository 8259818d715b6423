"""Autoscaler options of a lab: instance types of its simulated cloud, faults and provisioning delay."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from allotment.autoscaler.options import AutoscalerOptions, Consolidation, Planner
from allotment.autoscaler.providers.faults import SimulatedFault, parse_faults
from allotment.autoscaler.providers.simulated import simulated_cloud
from allotment.errors import InputError, InvalidManifests
from allotment.fleet.catalog import InstanceType, catalog, merged, read_catalog
from allotment.fleet.errors import suggestion
from allotment.model.features import Features
from allotment.planning.limits import PlanLimits


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


def autoscale_of(offer: str | os.PathLike[str] | Autoscale | None, cloud: str | Iterable[str] = ()) -> Autoscale | None:
    """Parse comma-separated providers and files; without any, all types are on offer.

    Raises InputError, and InvalidManifests for invalid rows of a file.
    """
    faults = [cloud] if isinstance(cloud, str) else list(cloud)
    if offer is None or isinstance(offer, Autoscale):
        if faults:
            hint = 'use autoscale="aws"' if offer is None else "use Autoscale(faults=…)"
            raise InputError("requires providers or catalog files as autoscale", hint, argument="cloud")
        return offer
    if not isinstance(offer, str | os.PathLike):
        raise InputError(
            f"expected providers, catalog files or an Autoscale, found {type(offer).__name__}",
            'use autoscale="aws,prices.csv"',
            argument="autoscale",
        )
    types = types_of(os.fspath(offer).split(","))
    return Autoscale(types, parse_faults(part for text in faults for part in text.split(",") if part))


def types_of(names_and_files: Iterable[str]) -> tuple[InstanceType, ...]:
    """Return the types of these providers, and those of the given files, which override packaged ones.

    Without providers, the types of all. Raises InputError, and InvalidManifests for invalid rows of a file.
    """
    words = [word.strip() for word in names_and_files if word.strip()]
    types = catalog()
    for file in filter(_is_file, words):
        try:
            text = Path(file).read_text("utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{file}: expected a CSV file in UTF-8", argument="autoscale") from None
        rows, problems = read_catalog(text, file)
        if problems:
            raise InvalidManifests(problems, {file: text}.get)
        types = merged(types, rows)
    providers = [word for word in words if not _is_file(word)]
    known = sorted({instance.provider for instance in types})
    for name in providers:
        if name not in known:
            hint = suggestion(name, known) or f"known: {', '.join(known)}"
            raise InputError(f"{name!r} is neither a provider nor a file", hint, argument="autoscale")
    return tuple(instance for instance in types if not providers or instance.provider in providers)


def _is_file(word: str) -> bool:
    return Path(word).is_file()
