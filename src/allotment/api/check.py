"""The mistakes in manifests, and their fixes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Final

from allotment.api.checks.next_step import CheckCommand
from allotment.api.checks.options import check_options
from allotment.api.checks.run import CheckRun
from allotment.api.cluster import Cluster, cluster_given
from allotment.api.clusters.source import Gates, gate_texts
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
        run = _run(
            sources, cluster, select, ignore, drivers, driver_gates, namespace, fail_on, config, isolated, fixes=()
        )
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
        fixes = ("--fix", *(("--unsafe-fixes",) if unsafe else ()))
        run = _run(
            sources, cluster, select, ignore, drivers, driver_gates, namespace, fail_on, config, isolated, fixes=fixes
        )
        after, report = run.fixed(unsafe)
        report = after.with_next(report)
    if write:
        write_fixes(run, report)
    return report


def write_fixes(run: CheckRun, report: CheckReport) -> None:
    """Replace the files whose texts were fixed, all or none. Raises InputError."""
    files = run.files
    write_all({file: text for file, text in report.texts.items() if file not in files.unwritable}, files.sources)


def _run(
    sources: Sequence[Source],
    cluster: Cluster | None,
    select: Sequence[str],
    ignore: Sequence[str],
    drivers: Mapping[str, str] | None,
    driver_gates: Gates,
    namespace: str,
    fail_on: FailOn | None,
    config: str | PathLike[str] | None,
    isolated: bool,
    *,
    fixes: tuple[str, ...],
) -> CheckRun:
    cluster = cluster_given(cluster)
    options = check_options(
        cluster, select=select, ignore=ignore, drivers=drivers, driver_gates=driver_gates, namespace=namespace,
        fail_on=fail_on, config=config, isolated=isolated,
    )  # fmt: skip
    files = read_manifest_files(sources or (_HERE,), options.is_excluded)
    source = cluster.source
    values = {
        "--driver": [f"{driver}={release}" for driver, release in (drivers or {}).items()],
        "--driver-gates": gate_texts(driver_gates),
        "--select": [select] if isinstance(select, str) else select,
        "--ignore": [ignore] if isinstance(ignore, str) else ignore,
        "-n": [namespace] if namespace else [],
        "--fail-on": [fail_on] if fail_on else [],
        "--config": [fspath(config)] if config else [],
    }
    words = (
        "check",
        *(files.names if sources else ()),
        *fixes,
        *source.origin.options,
        *source.version_options,
        *(word for option, given in values.items() for value in given for word in (option, value)),
        *(("--isolated",) if isolated else ()),
    )
    command = CheckCommand(
        words, source.origin, source.version_options, namespace, bool(fixes), "--unsafe-fixes" in fixes
    )
    return CheckRun.of(options, files, command)
