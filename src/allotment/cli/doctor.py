"""``allot doctor``: prints the findings of `allotment.tools.doctor` as a table, the most severe first.

The first line is the verdict. ``-o wide`` lists every object of a finding, and its impact.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from allotment.api.cluster import Cluster
from allotment.api.doctor import doctor
from allotment.cli.inputs.clusters import cluster_errors_of, live_cluster, sources
from allotment.cli.output.console import Screen, folded, open_screen
from allotment.errors import InputError
from allotment.explanation.text import NEXT
from allotment.phrases import counted, listed
from allotment.reference.cluster_checks import checks
from allotment.tools.doctor.examination import limit_findings
from allotment.tools.doctor.finding import ClusterFinding
from allotment.tools.doctor.report import DoctorReport
from allotment.tools.doctor.selection import selected_checks
from allotment.tools.unread import unread_notes

EXIT_HEALTHY, EXIT_ERRORS = 0, 1
_WIDTH: Final = 80
#: Maximum number of skipped checks listed by code.
_CODES: Final = 10
#: Names of inputs that are not resources.
_TOPICS: Final = {
    "gates": "feature gates",
    "served": "the APIs that the server serves",
    "permissions": "your permissions",
}
_COLOURS: Final = {"error": "red", "warning": "yellow", "note": "cyan"}


def run(arguments: Namespace) -> int:
    """Print the findings; return 1 if there are errors, else 0."""
    screen = open_screen()
    if arguments.list:
        return _list(screen, arguments.output, checks(arguments.select))
    cluster = _cluster(arguments)
    with cluster_errors_of(cluster):
        report = doctor(cluster, select=arguments.select)
    if arguments.output in ("json", "yaml"):
        screen.data(report.to_dict(), arguments.output)
    else:
        _write(screen, report, arguments.output == "wide")
    return EXIT_ERRORS if report.has_errors else EXIT_HEALTHY


def _cluster(arguments: Namespace) -> Cluster:
    """Return the snapshot or the running cluster. Raises InputError."""
    selected_checks(arguments.select)  # an unknown check is reported before a cluster that cannot be reached
    if not arguments.cluster:
        return live_cluster(arguments)
    if arguments.context or arguments.kubeconfig:
        raise InputError("--cluster: not allowed with --context or --kubeconfig", "use only one of them")
    return Cluster.snapshot(
        *sources(arguments, arguments.cluster), kube=arguments.kube_version, gates=arguments.feature_gates
    )


# --- text output ------------------------------------------------------------------------------------------------------


def _list(screen: Screen, output: str | None, rows: Sequence[Mapping[str, str]]) -> int:
    if output in ("json", "yaml"):
        screen.data(rows, output)
    else:
        cells = [[row["code"], row["severity"], row["summary"]] for row in rows]
        screen.table(["CODE", "SEVERITY", "CHECK"], cells, ["CHECK"])
    return EXIT_HEALTHY


def _write(screen: Screen, report: DoctorReport, wide: bool) -> None:
    width, findings = screen.width or _WIDTH, report.findings
    worst = findings[0].severity if findings else ""
    first, *rest = folded(report.verdict, width)
    screen.line(screen.paint(first, _COLOURS.get(worst, "green")))
    for line in rest:
        screen.line(line)
    if findings:
        screen.line()
        screen.line(_row("SEVERITY", "CODE", "SUBJECT"))
    why = {check.code: check.why for check in report.checks}
    for finding in findings if wide else limit_findings(findings):
        row = _row(finding.severity, finding.code, finding.subject)
        screen.line(row.replace(finding.severity, screen.paint(finding.severity, _COLOURS[finding.severity]), 1))
        for line in _block(finding, width, why[finding.code] if wide else "", wide):
            screen.line(line)
    if report.next:
        screen.line()
        screen.line(f"{NEXT}{report.next}")
    for text in _unseen(report):
        screen.line()
        for line in folded(text, width):
            screen.line(line)


def _row(severity: str, code: str, subject: str) -> str:
    return f"{severity:<11}{code:<7}{subject}"


def _block(finding: ClusterFinding, width: int, why: str, wide: bool) -> Iterator[str]:
    """Yield evidence and remedy, indented; commands are not folded, so that they can be copied."""
    yield from folded(finding.evidence, width, "  ")
    if wide and len(finding.objects) > 1:
        yield from folded(f"all objects: {', '.join(finding.objects)}", width, "  ")
    for line in finding.remedy.splitlines():
        if line.startswith("$ "):
            yield f"    {line}"
        else:
            yield from folded(f"-> {line}", width, "  ")
    if why:
        yield from folded(f"why: {why}", width, "  ")


def _unseen(report: DoctorReport) -> Iterator[str]:
    """Yield the checks that were skipped, and why."""
    blind = report.skipped
    if blind:
        by_reason: dict[str, list[str]] = {}
        for kind, why in report.snapshot.unread.items():
            if any(kind in check.needs for check in blind):
                by_reason.setdefault(why, []).append(_TOPICS.get(kind, kind))
        missing = [f"{listed(kinds)} ({why})" for why, kinds in by_reason.items()]
        codes = f": {', '.join(check.code for check in blind)}" if len(blind) <= _CODES else ""
        yield f"Not checked: {'; '.join(missing)}. {counted(len(blind), 'check')} skipped{codes}."
    for note in (*report.notes, *unread_notes(report.not_served)):
        yield f"note: {note}"
