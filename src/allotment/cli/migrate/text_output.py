"""``allot migrate`` in a terminal: what becomes of each workload and why, what changes, and what to know before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from allotment.cli.output.console import Screen, folded, table
from allotment.cli.output.diffs import show_diff
from allotment.phrases import counted
from allotment.tools.migrate.decision import Outcome
from allotment.tools.migrate.report import Migrated, Migration, Section

_WIDTH: Final = 80
#: Outcome -> what the first line counts, in one and in many, and the colour of its verdict.
_COUNTED: Final[dict[Outcome, tuple[str, str, str]]] = {
    "template": ("gets claims", "get claims", "green"),
    "claim": ("shares a claim", "share claims", "green"),
    "class": ("is served by its class", "are served by their class", "green"),
    "leave": ("stays with the device plugin", "stay with the device plugin", "yellow"),
    "cannot": ("cannot be migrated", "cannot be migrated", "red"),
}


def print_migration(
    screen: Screen, migration: Migration, sections: Sequence[Section], written: Sequence[str], shown: bool
) -> None:
    """Everything; the changes themselves where they are not written to files (``shown``)."""
    width = screen.width or _WIDTH
    print_lines(screen, _summary(migration))
    alike: dict[tuple[str, ...], list[Migrated]] = {}
    for one in migration.workloads:
        alike.setdefault(_details(one), []).append(one)
    for texts, workloads in alike.items():
        screen.line()
        _workloads(screen, workloads, texts, migration)
    if shown and (changed := migration.new_texts):
        screen.line()
        show_diff(screen, migration.sources, changed)
    for section in sections:
        screen.line()
        screen.line(screen.paint(section.title, "bold" if section.fine else "red"))
        _section(screen, section, width)
    if written:
        screen.line()
        print_lines(screen, f"Wrote {', '.join(written)}.")
    elif shown and migration.new_texts:
        screen.line()
        print_lines(screen, "Nothing was written: -d DIR writes to a directory, --in-place changes the files.")


def print_lines(screen: Screen, text: str) -> None:
    """A paragraph, folded."""
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
    counts = Counter(one.decision.outcome for one in migration.workloads)
    total = sum(counts.values())
    if not total:
        return "No workload requests a known GPU resource of a device plugin: nothing to change."
    told = [counted(counts[outcome], one, many) for outcome, (one, many, _) in _COUNTED.items() if counts[outcome]]
    subject = counted(total, "workload requests", "workloads request")
    return f"{subject} GPUs of a device plugin: {', '.join(told)}."


def _workloads(screen: Screen, workloads: Sequence[Migrated], texts: Sequence[str], migration: Migration) -> None:
    """Workloads of which the same is to be said, and that, once."""
    new = {one.name for one in migration.classes}
    for one in workloads:
        verdict, colour = _verdict(one, new), _COUNTED[one.decision.outcome][2]
        screen.line(f"{one.file}:{one.line} {one.subject}: {screen.paint(verdict, colour)}")
    for text in texts:
        for line in folded(text, screen.width or _WIDTH, "  "):
            screen.line(line)


def _details(one: Migrated) -> tuple[str, ...]:
    """What is said of a workload: labels that become something, or go, are no more than told so."""
    decision = one.decision
    texts = [decision.reason]
    texts += [f"hint: {decision.hint}"] if decision.hint else []
    told = {f"label {label.term}" for label in one.labels if label.expression or label.dropped}
    texts += [f"depends on: {'; '.join(fact for fact in decision.basis if fact not in told)}"]
    for label in one.labels:
        if label.expression:
            texts.append(f"{label.term} becomes {label.expression}")
        elif label.dropped:
            texts.append(f"{label.term} goes: {label.why}")
    return (*texts, *(f"note: {note}" for note in one.notes))


def _verdict(one: Migrated, new_classes: Collection[str]) -> str:
    match one.decision.outcome:
        case "template":
            return f"claims from template {one.claim_name}"
        case "claim":
            return f"shares claim {one.claim_name}"
        case "class":
            classes = one.decision.needs.classes
            new = "new " if any(name in new_classes for name in classes) else ""
            return f"stays, served by {new}class {', '.join(classes)}"
        case "leave":
            return "stays with the device plugin"
        case "cannot":
            return "cannot be migrated"
