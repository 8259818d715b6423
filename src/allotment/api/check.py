"""The mistakes in manifests, and their fixes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Final

from allotment.api.checks.next_step import CheckCommand
from allotment.api.checks.options import CheckArguments, check_options
from allotment.api.checks.run import CheckRun
from allotment.api.cluster import Cluster, cluster_given
from allotment.api.clusters.source import Gates
from allotment.api.load import Source
from allotment.api.manifest_files import read_manifest_files
from allotment.api.objects.file_writer import write_all
from allotment.cluster.gc_pause import gc_paused
from allotment.tools.check.report import CheckReport, FailOn

_HERE: Final = "."


def check(
    *sources: Source,
    cluster: Cluster | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    drivers: Mapping[str, str] | None = None,
    driver_gates: Gates = (),
    namespace: str = "",
    fail_on: FailOn | None = None,
    config: str | PathLike[str] | None = None,
    isolated: bool = False,
) -> CheckReport:
    """Return the mistakes in manifests. Without sources, all manifests of the current folder are checked.

    ``cluster``: also check whether the workloads get their devices there. ``select`` and ``ignore``: codes of rules,
    such as ``S`` or ``V301``. ``drivers``: releases that are not the newest known ones: ``{"gpu.nvidia.com": "25.8"}``.
    ``driver_gates``: feature gates of drivers that differ from their defaults. ``namespace``: that of objects which
    state none. ``fail_on``: the level at which the report ``fails``, by default ``error``. ``config``: the
    configuration file, by default the nearest allotment.toml or pyproject.toml, which arguments override;
    ``isolated``: read no configuration. Raises InputError for an invalid argument, InvalidManifests for a file that
    cannot be read.
    """
    with gc_paused():
        given = CheckArguments(
            cluster_given(cluster), select, ignore, drivers or {}, driver_gates, namespace, fail_on, config, isolated
        )
        run = _run(sources, given)
        return run.with_next(run.report())


def fix(
    *sources: Source,
    unsafe: bool = False,
    write: bool = False,
    cluster: Cluster | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    drivers: Mapping[str, str] | None = None,
    driver_gates: Gates = (),
    namespace: str = "",
    fail_on: FailOn | None = None,
    config: str | PathLike[str] | None = None,
    isolated: bool = False,
) -> CheckReport:
    """Return the fixed manifests (``texts``), and the findings that remain.

    ``unsafe``: also apply fixes that guess the intent. ``write``: replace the files, all or none; other sources are
    not changed. The other arguments are those of ``check``. Raises InputError if a file cannot be written.
    """
    with gc_paused():
        given = CheckArguments(
            cluster_given(cluster), select, ignore, drivers or {}, driver_gates, namespace, fail_on, config, isolated
        )
        run = _run(sources, given, "--fix", *(("--unsafe-fixes",) if unsafe else ()))
        after, report = run.fixed(unsafe)
        report = after.with_next(report)
    if write:
        write_fixes(run, report)
    return report


def write_fixes(run: CheckRun, report: CheckReport) -> None:
    """Replace the files whose texts were fixed, all or none. Raises InputError."""
    files = run.files
    write_all({file: text for file, text in report.texts.items() if file not in files.unwritable}, files.sources)


def _run(sources: Sequence[Source], given: CheckArguments, *fixes: str) -> CheckRun:
    """Return a check. ``fixes``: the options of the command that fixes the files."""
    options = check_options(given)
    files = read_manifest_files(sources or (_HERE,), options.is_excluded)
    source = given.cluster.source
    command = CheckCommand(
        words=("check", *(files.names if sources else ()), *fixes, *given.words),
        cluster=source.origin,
        versions=source.version_options,
        namespace=given.namespace,
        fixes=bool(fixes),
        guesses="--unsafe-fixes" in fixes,
    )
    return CheckRun.of(options, files, command)
