"""Text output of ``allot migrate``: the decision for each workload with its reason, the changes, and notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from allotment.cli.output.console import Screen, folded, table
from allotment.cli.output.diffs import show_diff
from allotment.phrases import counted
from allotment.tools.migrate.decision import Outcome
from allotment.tools.migrate.migration_report import MigrationReport
from allotment.tools.migrate.report import MigratedWorkload, Migration, Section

_WIDTH: Final = 80
#: Outcome -> singular and plural for the summary, and the colour of its verdict.
_COUNTED: Final[dict[Outcome, tuple[str, str, str]]] = {
    "template": ("gets claims", "get claims", "green"),
    "claim": ("shares a claim", "share claims", "green"),
    "class": ("is served by its class", "are served by their class", "green"),
    "leave": ("stays with the device plugin", "stay with the device plugin", "yellow"),
    "cannot": ("cannot be migrated", "cannot be migrated", "red"),
}


def print_migration(screen: Screen, report: MigrationReport, shown: bool) -> None:
    """Print the migration, with the changes if they are not written to files (``shown``)."""
    width = screen.width or _WIDTH
    migration = report.migration
    print_lines(screen, _summary(migration))
    by_details: dict[tuple[str, ...], list[MigratedWorkload]] = {}
    for workload in migration.workloads:
        by_details.setdefault(_details(workload), []).append(workload)
    for texts, workloads in by_details.items():
        screen.line()
        _workloads(screen, workloads, texts, migration)
    if shown and (changed := migration.new_texts):
        screen.line()
        show_diff(screen, migration.sources, changed)
    for section in report.sections:
        screen.line()
        screen.line(screen.paint(section.title, "bold" if section.fine else "red"))
        _section(screen, section, width)
    if report.written:
        screen.line()
        print_lines(screen, f"Wrote {', '.join(report.written)}.")
    elif shown and migration.new_texts:
        screen.line()
        print_lines(screen, "Nothing was written: -d DIR writes to a directory, --in-place changes the files.")


def print_lines(screen: Screen, text: str) -> None:
    """Print a folded paragraph."""
    for line in folded(text, screen.width or _WIDTH):
        screen.line(line)


def _section(screen: Screen, section: Section, width: int) -> None:
    for number, text in enumerate(section.lines):
        lines = [f"  {text}"] if text.startswith(" ") else folded(text, width, "  ")
        for line in lines:
            screen.line(line)
        if number == 0 and section.table:
            screen.line()
            headers, *rows = section.table
            for line in table(headers, rows, width - 2, ("BEFORE", "AFTER")):
                screen.line(f"  {line}")
            if len(section.lines) > 1:
                screen.line()


def _summary(migration: Migration) -> str:
    counts = Counter(workload.decision.outcome for workload in migration.workloads)
    total = sum(counts.values())
    if not total:
        return "No workload requests a known GPU resource of a device plugin: nothing to change."
    counted_outcomes = [
        counted(counts[outcome], singular, plural)
        for outcome, (singular, plural, _) in _COUNTED.items()
        if counts[outcome]
    ]
    subject = counted(total, "workload requests", "workloads request")
    return f"{subject} GPUs from a device plugin: {', '.join(counted_outcomes)}."


def _workloads(
    screen: Screen, workloads: Sequence[MigratedWorkload], texts: Sequence[str], migration: Migration
) -> None:
    """Print workloads with equal details, and the details once."""
    new = {item.name for item in migration.classes}
    for item in workloads:
        verdict, colour = _verdict(item, new), _COUNTED[item.decision.outcome][2]
        screen.line(f"{item.file}:{item.line} {item.subject}: {screen.paint(verdict, colour)}")
    for text in texts:
        for line in folded(text, screen.width or _WIDTH, "  "):
            screen.line(line)


def _details(workload: MigratedWorkload) -> tuple[str, ...]:
    """Return the details of a workload; labels that are replaced or removed are only listed."""
    decision = workload.decision
    texts = [decision.reason]
    texts += [f"hint: {decision.hint}"] if decision.hint else []
    omitted = {f"label {label.term}" for label in workload.labels if label.expression or label.dropped}
    texts += [f"based on: {'; '.join(fact for fact in decision.basis if fact not in omitted)}"]
    for label in workload.labels:
        if label.expression:
            texts.append(f"{label.term} becomes {label.expression}")
        elif label.dropped:
            texts.append(f"{label.term} is removed: {label.why}")
    return (*texts, *(f"note: {note}" for note in workload.notes))


def _verdict(workload: MigratedWorkload, new_classes: Collection[str]) -> str:
    match workload.decision.outcome:
        case "template":
            return f"claims from template {workload.claim_name}"
        case "claim":
            return f"shares claim {workload.claim_name}"
        case "class":
            classes = workload.decision.needs.classes
            new = "new " if any(name in new_classes for name in classes) else ""
            return f"stays, served by {new}class {', '.join(classes)}"
        case "leave":
            return "stays with the device plugin"
        case "cannot":
            return "cannot be migrated"
