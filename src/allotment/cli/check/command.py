"""``allot check``: reports or fixes mistakes in manifests."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence

from allotment.api.checks.next_step import CheckCommand
from allotment.api.checks.options import CheckArguments, check_options
from allotment.api.checks.run import CheckRun
from allotment.api.load import STDIN, Manifests, Source
from allotment.api.manifest_files import read_manifest_files
from allotment.cli.check.output import EXIT_FINDINGS, EXIT_FINE, write, write_failure
from allotment.cli.inputs.clusters import cluster_errors_of
from allotment.cli.inputs.target_cluster import target_cluster
from allotment.cli.output.console import open_screen, print_notes
from allotment.cluster.gc_pause import gc_paused
from allotment.errors import InputError
from allotment.lab.state import Register
from allotment.model.loading import load_text
from allotment.shell_words import shell_line


def run(arguments: Namespace) -> int:
    """Check manifests, and fix them with ``--fix``; return 1 for findings at or above the ``--fail-on`` level."""
    with gc_paused():
        try:
            return _run(arguments)
        except InputError as error:
            if arguments.output == "sarif":
                write_failure(error)
            raise


def _run(arguments: Namespace) -> int:
    screen = open_screen()
    check = _check_of(arguments)
    print_notes(check.options.notes)
    if arguments.fix or arguments.diff:
        from allotment.cli.check.fixes import fix_files

        return fix_files(screen, arguments, check)
    report = check.with_next(check.report())
    write(screen, report, arguments.output)
    if report.objects and not (report.by_level["error"] or arguments.output or check.command.cluster.options):
        print_notes(_unused_lab())
    return EXIT_FINDINGS if report.fails else EXIT_FINE


def _unused_lab() -> Iterator[str]:
    """Yield a note if a lab is running, in which the objects were not tried, with the option that selects it."""
    if Register().running():
        from allotment.cli.live.connection import lab_options

        yield f"the running lab was not used: add {shell_line(lab_options())}"


def _check_of(arguments: Namespace) -> CheckRun:
    """Return the check of a command line. Raises InputError and InvalidManifests."""
    if arguments.unsafe_fixes and not (arguments.fix or arguments.diff):
        raise InputError(
            "--unsafe-fixes: requires --fix or --diff", "use --fix --unsafe-fixes, or --diff --unsafe-fixes"
        )
    cluster = target_cluster(arguments)
    with cluster_errors_of(cluster):
        given = CheckArguments(
            cluster,
            select=arguments.select or (),
            ignore=arguments.ignore or (),
            drivers=dict(map(_driver_release, arguments.driver)),
            driver_gates=arguments.driver_gates,
            namespace=arguments.namespace or "",
            fail_on=arguments.fail_on,
            config=arguments.config,
            isolated=arguments.isolated,
        )
        options = check_options(given)
    sources = list(_sources(arguments.paths or ["."], arguments.stdin_filename or STDIN))
    files = read_manifest_files(sources, options.is_excluded, force_exclude=arguments.force_exclude)
    command = CheckCommand(
        words=tuple(arguments.words),
        cluster=cluster.origin,
        versions=cluster.source.version_options,
        namespace=arguments.namespace or "",
        fixes=arguments.fix,
        guesses=arguments.unsafe_fixes,
    )
    return CheckRun.of(options, files, command)


def _driver_release(text: str) -> tuple[str, str]:
    name, equals, release = (part.strip() for part in text.partition("="))
    if not equals or not release:
        raise InputError(f"--driver: expected NAME=RELEASE, found {text!r}", "for example gpu.nvidia.com=25.8")
    return name, release


def _sources(paths: Sequence[str], stdin_name: str) -> Iterator[Source]:
    """Yield the paths, with the manifests of standard input, under a name, for the first ``-``."""
    is_read = False
    for path in paths:
        if path != "-":
            yield path
        elif not is_read:
            is_read = True
            data = sys.stdin.buffer.read()
            loaded = load_text(data, stdin_name)
            yield Manifests(
                tuple(loaded.documents),
                ("-",),
                tuple(loaded.problems),
                {stdin_name: data.decode("utf-8", "replace")},
                is_repeatable=False,
            )
