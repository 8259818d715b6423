"""``allot check``: reports or fixes mistakes in manifests."""

from __future__ import annotations

from argparse import Namespace

from allotment.cli.check.files import read_files
from allotment.cli.check.next_command import next_command
from allotment.cli.check.options import options_of
from allotment.cli.check.report import build_report, exit_code, write
from allotment.cli.output.console import open_screen, print_notes
from allotment.cluster.gc_pause import gc_paused
from allotment.tools.check.bundle import Bundle


def run(arguments: Namespace) -> int:
    """Check manifests, and fix them with ``--fix``; return 1 for findings at or above the ``--fail-on`` level."""
    with gc_paused():
        return _run(arguments)


def _run(arguments: Namespace) -> int:
    screen = open_screen()
    options = options_of(arguments)
    paths = arguments.paths or ["."]
    files = read_files(paths, options.is_excluded, arguments.force_exclude, arguments.stdin_filename or "")
    print_notes(options.notes)
    bundle = Bundle(files.documents, options.settings, options.world, files.problems, options.namespace)
    if arguments.fix or arguments.diff:
        from allotment.cli.check.fixes import fix_files

        return fix_files(screen, arguments, options, files, bundle)
    report = build_report(bundle, options.policy.evaluate(bundle, files.sources), options, files)
    code = exit_code(report, options)
    report.next = next_command(arguments, options, files, bundle, report.findings)
    write(screen, report, arguments.output)
    return code
