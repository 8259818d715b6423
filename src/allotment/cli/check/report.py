"""Reports a run of ``allot check`` in the requested format, and computes its exit code."""

from __future__ import annotations

from typing import Final

from allotment.cli.check.files import Files
from allotment.cli.check.options import Options
from allotment.cli.check.text_output import CheckReport, print_concise, print_report
from allotment.cli.output.console import Screen
from allotment.model.meta import Object
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.suppressions import SuppressionResult

EXIT_FINE, EXIT_FINDINGS = 0, 1
#: Maximum number of documents for which known hardware is suggested.
_MOST_TRIED: Final = 50


def build_report(bundle: Bundle, result: SuppressionResult, options: Options, files: Files) -> CheckReport:
    """Return the report of a bundle."""
    has_requests = bool(bundle.claims or bundle.pods)
    proven = options.policy.runs_simulation and has_requests and options.world is not None
    unproven = any(finding.code.startswith("P") for finding in (*result.findings, *result.suppressed))
    return CheckReport(
        result.findings,
        files.sources,
        objects=len(bundle.documents),
        silenced=len(result.suppressed),
        templates=files.templates,
        patches=files.patches,
        place=options.place,
        unread=options.unread,
        fitting=proven and not unproven and not bundle.problems,
        hardware=_hardware(bundle, result) if has_requests and options.world is None else "",
    )


def _hardware(bundle: Bundle, result: SuppressionResult) -> str:
    """Return known hardware on which the objects fit; only for few documents, because many rarely share a cluster."""
    if len(bundle.documents) > _MOST_TRIED or any(finding.level == "error" for finding in result.findings):
        return ""
    from allotment.tools.check.hardware.smallest_fleet import smallest_fleet

    values = [manifest.value for manifest in bundle.manifests.values() if isinstance(manifest.value, Object)]
    return smallest_fleet(values, bundle.features) or ""


def write(screen: Screen, report: CheckReport, output: str | None) -> None:
    """Print the report in the requested format."""
    if output == "json":
        from allotment.cli.check.json_output import data

        screen.data(data(report), "json")
    elif output == "sarif":
        from allotment.cli.check.sarif import log

        screen.data(log(report), "json")
    elif output == "github":
        from allotment.cli.check.github import commands

        for command in commands(report.findings):
            screen.line(command)
    elif output == "concise":
        print_concise(screen, report)
    else:
        print_report(screen, report)


def exit_code(report: CheckReport, options: Options) -> int:
    """Return 1 for findings at or above the ``--fail-on`` level, else 0."""
    return EXIT_FINDINGS if any(f.level in options.failing for f in report.findings) else EXIT_FINE
