"""The migration of workloads from device plugins to claims."""

from __future__ import annotations

import re
from collections.abc import Iterable
from os import PathLike, fspath
from typing import Final, Literal, TypeAlias

from allotment.api.choices import require_choice
from allotment.api.cluster import Cluster, cluster_given
from allotment.api.clusters.described import HardwareSource
from allotment.api.load import STDIN, Source
from allotment.api.manifest_files import read_manifest_files
from allotment.api.migration_writer import write_folder, write_in_place
from allotment.api.objects.unread_resources import OF_DEVICES, must_know
from allotment.cluster.inspection.snapshot import DEVICES, PODS
from allotment.errors import InputError
from allotment.model.core import Node
from allotment.model.meta import Object
from allotment.model.resource import DeviceClass, ResourceSlice
from allotment.tools.migrate.migration_report import MigrationReport
from allotment.tools.migrate.run import migrate as decide
from allotment.tools.migrate.sections import sections_of
from allotment.tools.migrate.simulation.comparison import compare
from allotment.tools.migrate.simulation.expected_slices import with_expected
from allotment.tools.migrate.target import OLDEST, MigrationStrategy, Target

#: The attributes that all devices of a container can be required to share.
MatchAttribute: TypeAlias = Literal["", "pcieRoot", "numaNode"]

_VERSION: Final = re.compile(r"v?1\.([0-9]+)(?:\..*)?")


def migrate(
    *sources: Source,
    cluster: Cluster | None = None,
    strategy: MigrationStrategy = "auto",
    shares: int = 0,
    match_attribute: MatchAttribute = "",
    namespace: str = "",
    output_dir: str | PathLike[str] | None = None,
    in_place: bool = False,
) -> MigrationReport:
    """Return how to migrate workloads from device plugins to claims, and the changed manifests (``texts``).

    ``cluster``: compare the fit before and after there; one that is only a release may be older than the oldest that
    is modeled. ``strategy``: ``class`` keeps requests that a DeviceClass can serve, ``claims`` replaces all, ``auto``
    decides for each workload. ``shares``: the number of pods that share a device, if no manifest states it.
    ``match_attribute``: the attribute that all devices of a container must share. ``namespace``: that of objects which
    state none. ``output_dir``: write all files to this new directory; ``in_place``: change the files themselves.
    Raises InputError for an invalid argument or an existing file, InvalidManifests for manifests that cannot be read.
    """
    require_choice("strategy", strategy, MigrationStrategy)
    require_choice("match_attribute", match_attribute, MatchAttribute)
    if shares < 0 or shares == 1:
        raise InputError(f"expected a number of pods >= 2, found {shares}", argument="shares")
    if in_place and output_dir is not None:
        raise InputError("not allowed with output_dir", "use only one of them", argument="in_place")
    files = read_manifest_files(sources)
    files.require_syntax()
    if in_place and files.unwritable:
        name = "standard input" if STDIN in files.unwritable else min(files.unwritable)
        raise InputError(f"{name} is not a file", "write to a new directory instead", argument="in_place")
    target = with_expected(_target(cluster_given(cluster), strategy, shares, match_attribute))
    migration = decide(files.documents, target, namespace or "default")
    trial = compare(migration)
    written: Iterable[str] = ()
    if output_dir is not None:
        written = write_folder(fspath(output_dir), migration, trial, files)
    elif in_place:
        written = write_in_place(migration, files)
    return MigrationReport(
        migration, sections_of(migration, trial), tuple(files.templates), tuple(files.patches), tuple(written)
    )


def require_modeled(kube: str | None) -> None:
    """Raise InputError for a release that is too old to test the fit."""
    if _old_release(kube):
        raise InputError(
            f"the fit can be tested only for Kubernetes {OLDEST} or later, found {kube}",
            "specify the target release, or no cluster and no hardware",
            argument="kube",
        )


def _old_release(kube: str | None) -> str:
    """Return a release that is older than the oldest modeled one; empty for others."""
    found = _VERSION.fullmatch(kube or "")
    if found is None or int(found[1]) >= int(OLDEST.partition(".")[2]):
        return ""
    return f"1.{int(found[1])}"


def _target(cluster: Cluster, strategy: MigrationStrategy, shares: int, match_attribute: MatchAttribute) -> Target:
    source = cluster.source
    is_known = source.has_objects
    if old := _old_release(source.kube):
        if is_known:
            require_modeled(source.kube)
        return Target(kube=old, features=None, strategy=strategy, shares=shares)
    inputs = cluster.read((*DEVICES, *PODS))
    values: tuple[Object, ...] = inputs.cluster if is_known else ()
    must_know(values, *OF_DEVICES)
    return Target(
        kube=inputs.features.kube,
        features=inputs.features,
        strategy=strategy,
        known=is_known,
        nodes=tuple(value for value in values if isinstance(value, Node)),
        slices=tuple(value for value in values if isinstance(value, ResourceSlice)),
        classes=tuple(value for value in values if isinstance(value, DeviceClass)),
        objects=values,
        fleet=source.machines if isinstance(source, HardwareSource) else (),
        shares=shares,
        same=f"resource.kubernetes.io/{match_attribute}" if match_attribute else "",
    )
