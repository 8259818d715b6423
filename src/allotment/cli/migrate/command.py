"""``allot migrate``: decides how to migrate workloads from device plugins, and prints or writes manifests."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from allotment.api.releases import features
from allotment.api.unread_resources import OF_DEVICES, must_know
from allotment.cli.check.files import Files, passed_over, read_files
from allotment.cli.inputs.objects import read_inputs
from allotment.cli.migrate.manifest_writer import write_folder, write_in_place
from allotment.cli.migrate.text_output import print_lines, print_migration
from allotment.cli.output.console import open_screen
from allotment.cli.output.diffs import show_diff
from allotment.errors import InputError, InvalidManifests
from allotment.model import DEFAULT_RELEASE
from allotment.model.core import Node
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.model.resource import DeviceClass, ResourceSlice
from allotment.tools.migrate.report import MigratedWorkload, Migration, Section
from allotment.tools.migrate.run import migrate
from allotment.tools.migrate.sections import sections_of
from allotment.tools.migrate.simulation.comparison import compare
from allotment.tools.migrate.simulation.expected_slices import with_expected
from allotment.tools.migrate.target import OLDEST, Target

_VERSION: Final = re.compile(r"v?1\.([0-9]+)(?:\..*)?")


def target_of(arguments: Namespace) -> Target:
    """Return the migration target. Raises InputError and InvalidManifests for invalid options."""
    version = arguments.kube_version or DEFAULT_RELEASE
    found = _VERSION.fullmatch(version)
    old = found is not None and int(found[1]) < int(OLDEST.partition(".")[2])
    if old and (arguments.fleet or arguments.cluster or arguments.context or arguments.kubeconfig):
        raise InputError(
            f"--kube-version {version}: the fit can be tested only for Kubernetes {OLDEST} or later",
            "omit --fleet and --cluster, or specify the target release",
        )
    if old and found is not None:
        return Target(kube=f"1.{int(found[1])}", features=None, strategy=arguments.strategy, shares=arguments.shares)
    known, values = _cluster(arguments, version)
    return Target(
        kube=known.kube,
        features=known,
        strategy=arguments.strategy,
        known=values is not None,
        nodes=tuple(value for value in values or () if isinstance(value, Node)),
        slices=tuple(value for value in values or () if isinstance(value, ResourceSlice)),
        classes=tuple(value for value in values or () if isinstance(value, DeviceClass)),
        objects=tuple(values or ()),
        fleet=tuple(arguments.fleet or ()),
        shares=arguments.shares,
        same=f"resource.kubernetes.io/{arguments.match_attribute}" if arguments.match_attribute else "",
    )


def _cluster(arguments: Namespace, version: str) -> tuple[Features, Iterable[Object] | None]:
    """Return release and gates, and the objects of the cluster, if one is given."""
    if arguments.context or arguments.kubeconfig:
        if arguments.fleet or arguments.cluster:
            raise InputError("--context: not allowed with --cluster or --fleet", "use only one of them")
        from allotment.cli.live.cluster_state import read_live
        from allotment.cluster.inspection.snapshot import DEVICES, PODS

        live = read_live(arguments, (*DEVICES, *PODS))
        must_know(live.values, *OF_DEVICES)
        return live.features, live.values
    if not (arguments.fleet or arguments.cluster):
        return features(version, arguments.feature_gates), None
    options = {"cluster": [arguments.cluster or []], "fleet": [arguments.fleet] if arguments.fleet else [], "files": []}
    inputs = read_inputs(Namespace(**{**vars(arguments), **options}))
    must_know(inputs.cluster, *OF_DEVICES)
    return inputs.features, inputs.cluster


def data(
    migration: Migration, sections: Sequence[Section], written: Sequence[str], left_out: Sequence[str]
) -> dict[str, Any]:
    """Return JSON data: decisions, new texts by file, sections, written files, and files to render first."""
    return {
        "decided": migration.decided,
        "fine": migration.decided and all(section.fine for section in sections),
        "kube": migration.target.kube,
        "workloads": [_workload(item) for item in migration.workloads],
        "made": [
            {"kind": item.kind, "namespace": item.namespace, "name": item.name, "file": item.file, "users": item.users}
            for item in (*migration.new_objects, *migration.classes)
        ],
        "files": migration.new_texts,
        "unwritten": dict(migration.unwritten),
        "sections": {section.title: msgspec.to_builtins(section) for section in sections},
        "written": list(written),
        "leftOut": list(left_out),
    }


def _workload(workload: MigratedWorkload) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(workload)
    for container in plain["containers"]:
        del container["path"]
    return plain


EXIT_FINE, EXIT_NOT_FINE = 0, 1


def run(arguments: Namespace) -> int:
    """Migrate; return 0 if every workload can be migrated without problems, else 1."""
    screen = open_screen()
    if arguments.shares < 0 or arguments.shares == 1:
        raise InputError(f"--shares: expected a number of pods >= 2, found {arguments.shares}")
    files = _read(arguments)
    target = with_expected(target_of(arguments))
    migration = migrate(files.documents, target, arguments.namespace or "default")
    trial = compare(migration)
    sections = sections_of(migration, trial)
    written: tuple[str, ...] = ()
    if arguments.output_dir is not None:
        written = write_folder(arguments.output_dir, migration, trial, files)
    elif arguments.in_place:
        written = write_in_place(migration, files)
    if arguments.output == "json":
        screen.data(data(migration, sections, written, (*files.templates, *files.patches)), "json")
    elif arguments.diff:
        show_diff(screen, migration.sources, migration.new_texts)
    else:
        shown = arguments.output_dir is None and not arguments.in_place
        print_migration(screen, migration, sections, written, shown)
        for note in passed_over(files.templates, files.patches, "migrate"):
            screen.line()
            print_lines(screen, note)
    return EXIT_FINE if is_fine(migration, sections) else EXIT_NOT_FINE


def is_fine(migration: Migration, sections: tuple[Section, ...]) -> bool:
    """Return whether every workload can be migrated, and the checks of the result found no problem."""
    return migration.decided and all(section.fine for section in sections)


def _read(arguments: Namespace) -> Files:
    files = read_files(arguments.paths, lambda file: False)
    if files.problems:
        raise InvalidManifests(files.problems, files.sources.get)
    if files.stdin and arguments.in_place:
        raise InputError("--in-place: standard input is not a file", "write to a directory with -d DIR")
    return files
