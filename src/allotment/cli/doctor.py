"""``allot doctor``: prints the findings of `allotment.tools.doctor` as a table, the most severe first.

The first line is the verdict. ``-o wide`` lists every object of a finding, and its impact.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any, Final

from allotment.api.releases import features_among
from allotment.api.validation import defined_twice
from allotment.cli.output.console import Screen, folded, open_screen
from allotment.errors import InputError, InvalidManifests
from allotment.explanation.text import NEXT
from allotment.fleet.errors import suggestion
from allotment.model.loading import load_paths
from allotment.phrases import counted, listed
from allotment.tools.doctor.check import ClusterCheck
from allotment.tools.doctor.checks import CHECKS
from allotment.tools.doctor.examination import (
    SEVERITIES,
    confirmed,
    limit_findings,
    needs_confirmation,
    run_checks,
    skipped_checks,
    verdict,
)
from allotment.tools.doctor.finding import ClusterFinding
from allotment.tools.doctor.reading import is_cluster_object, namespaced_name, read_objects
from allotment.tools.doctor.snapshot import ClusterSnapshot, snapshot_of
from allotment.tools.unread import NOT_SERVED, unread_notes, unread_resources

EXIT_HEALTHY, EXIT_ERRORS = 0, 1
_WIDTH: Final = 80
#: Maximum number of skipped checks listed by code.
_CODES: Final = 10
#: Time for controllers to react to a pod.
_SECOND_LOOK_SECONDS: Final = 2.0
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
    checks = _chosen(arguments.select)
    if arguments.list:
        return _list(screen, arguments.output, checks)
    found, notes = _found(arguments)
    findings = run_checks(found, checks)
    if not arguments.cluster and needs_confirmation(findings, checks):
        time.sleep(_SECOND_LOOK_SECONDS)
        found, notes = _found(arguments)
        findings = confirmed(findings, run_checks(found, checks), checks)
    if arguments.output in ("json", "yaml"):
        data = _data(found, findings, checks, notes)
        screen.data(data, arguments.output)
    else:
        _write(screen, found, findings, checks, notes, arguments.output == "wide")
    return EXIT_ERRORS if any(finding.severity == "error" for finding in findings) else EXIT_HEALTHY


def _chosen(only: Sequence[str]) -> tuple[ClusterCheck, ...]:
    """Return the checks with one of the code prefixes. Raises InputError for an unknown prefix."""
    words = [word.strip().upper() for text in only for word in text.split(",") if word.strip()]
    for word in words:
        if not any(check.code.startswith(word) for check in CHECKS):
            hint = suggestion(word, {check.code: check for check in CHECKS}) or "allot doctor --list lists all checks"
            raise InputError(f"--select: unknown check {word!r}", hint)
    return tuple(check for check in CHECKS if not words or check.code.startswith(tuple(words)))


def _found(arguments: Namespace) -> tuple[ClusterSnapshot, tuple[str, ...]]:
    """Return the state of a snapshot or live cluster, and notes about reading it."""
    if arguments.cluster and (arguments.context or arguments.kubeconfig):
        raise InputError("--cluster: not allowed with --context or --kubeconfig", "use only one of them")
    if not arguments.cluster:
        from allotment.cli.live.doctor_input import examined_live

        return examined_live(arguments)
    paths = [path for group in arguments.cluster for path in group]
    loaded = load_paths(paths, sys.stdin.buffer if "-" in paths else None)
    if loaded.problems:
        raise InvalidManifests(loaded.problems, lambda file: None)
    if not loaded.documents:
        raise InputError(f"no Kubernetes objects in {', '.join(paths)}", "allot snapshot -o FILE saves a cluster")
    objects = (document for document in loaded.documents if is_cluster_object(document.tree))
    if twice := tuple(defined_twice((document, namespaced_name(document.tree)) for document in objects)):
        raise InvalidManifests(twice, lambda file: None)
    seen = read_objects(document.tree for document in loaded.documents)
    known = features_among(arguments.kube_version, arguments.feature_gates, seen.values)
    return snapshot_of(known, seen.values, denied_unknown="not included in a snapshot"), tuple(
        f"ignored: {resource}" for resource in seen.failed
    )


# --- text output ------------------------------------------------------------------------------------------------------


def _list(screen: Screen, output: str | None, checks: Sequence[ClusterCheck]) -> int:
    if output in ("json", "yaml"):
        rows = [
            {"code": check.code, "severity": check.severity, "summary": check.summary, "why": check.why}
            for check in checks
        ]
        screen.data(rows, output)
    else:
        screen.table(["CODE", "SEVERITY", "CHECK"], [[c.code, c.severity, c.summary] for c in checks], ["CHECK"])
    return EXIT_HEALTHY


def _write(
    screen: Screen,
    found: ClusterSnapshot,
    findings: Sequence[ClusterFinding],
    checks: Sequence[ClusterCheck],
    notes: Sequence[str],
    wide: bool,
) -> None:
    width = screen.width or _WIDTH
    worst = findings[0].severity if findings else ""
    first, *rest = folded(verdict(found, findings), width)
    screen.line(screen.paint(first, _COLOURS.get(worst, "green")))
    for line in rest:
        screen.line(line)
    if findings:
        screen.line()
        screen.line(_row("SEVERITY", "CODE", "SUBJECT"))
    why = {check.code: check.why for check in checks}
    for finding in findings if wide else limit_findings(findings):
        row = _row(finding.severity, finding.code, finding.subject)
        screen.line(row.replace(finding.severity, screen.paint(finding.severity, _COLOURS[finding.severity]), 1))
        for line in _block(finding, width, why[finding.code] if wide else "", wide):
            screen.line(line)
    if step := next_command(findings):
        screen.line()
        screen.line(f"{NEXT}{step}")
    for text in _unseen(found, checks, notes):
        screen.line()
        for line in folded(text, width):
            screen.line(line)


def next_command(findings: Sequence[ClusterFinding]) -> str:
    """Return the first command of the remedy of the most severe problem that has one; empty without problems."""
    lines = (line for finding in findings if finding.severity != "note" for line in finding.remedy.splitlines())
    return next((line.removeprefix("$ ") for line in lines if line.startswith("$ ")), "")


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


def _unseen(found: ClusterSnapshot, checks: Sequence[ClusterCheck], notes: Sequence[str]) -> Iterator[str]:
    """Yield the checks that were skipped, and why."""
    blind = skipped_checks(found, checks)
    if blind:
        by_reason: dict[str, list[str]] = {}
        for kind, why in found.unread.items():
            if any(kind in check.needs for check in blind):
                by_reason.setdefault(why, []).append(_TOPICS.get(kind, kind))
        missing = [f"{listed(kinds)} ({why})" for why, kinds in by_reason.items()]
        codes = f": {', '.join(check.code for check in blind)}" if len(blind) <= _CODES else ""
        yield f"Not checked: {'; '.join(missing)}. {counted(len(blind), 'check')} skipped{codes}."
    for note in (*notes, *unread_notes(_not_served(found))):
        yield f"note: {note}"


def _not_served(found: ClusterSnapshot) -> dict[str, str]:
    """Return the resources that would matter but are not served; those that could not be read are in ``unread``."""
    return {name: why for name, why in unread_resources(found.values).items() if why == NOT_SERVED}


def _data(
    found: ClusterSnapshot, findings: Sequence[ClusterFinding], checks: Sequence[ClusterCheck], notes: Sequence[str]
) -> dict[str, Any]:
    return {
        "verdict": verdict(found, findings),
        "counts": {severity: sum(f.severity == severity for f in findings) for severity in SEVERITIES},
        "findings": [{**finding._asdict(), "objects": list(finding.objects)} for finding in findings],
        "notLookedAt": dict(found.unread),
        "notServed": list(_not_served(found)),
        "skipped": [check.code for check in skipped_checks(found, checks)],
        "notes": list(notes),
        **({"next": step} if (step := next_command(findings)) else {}),
    }
