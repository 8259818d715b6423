"""``allot migrate`` in a terminal: what becomes of each workload and why, what changes, and what to know before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import Final

from allotment.cli.screen import Screen, folded, table
from allotment.tools.migrate.decision import Outcome
from allotment.tools.migrate.report import Migrated, Migration
from allotment.tools.migrate.run import CLASSES_FILE
from allotment.tools.migrate.section import Section

_WIDTH: Final = 80
#: Outcome -> what the first line counts, in one and in many, and the colour of its verdict.
_COUNTED: Final[dict[Outcome, tuple[str, str, str]]] = {
    "template": ("gets claims", "get claims", "green"),
    "claim": ("shares a claim", "share claims", "green"),
    "class": ("is served by its class", "are served by their class", "green"),
    "leave": ("stays with the device plugin", "stay with the device plugin", "yellow"),
    "cannot": ("cannot be migrated", "cannot be migrated", "red"),
}


def tell(
    screen: Screen, migration: Migration, sections: Sequence[Section], written: Sequence[str], shown: bool
) -> None:
    """Everything; the changes themselves where they are not written to files (``shown``)."""
    width = screen.width or _WIDTH
    for line in folded(_summary(migration), width):
        screen.line(line)
    for one in migration.workloads:
        screen.line()
        _workload(screen, one, width)
    if shown and (changes := list(diff(migration))):
        screen.line()
        for line in changes:
            screen.line(_painted(screen, line))
    for section in sections:
        screen.line()
        screen.line(screen.paint(section.title, "bold" if section.fine else "red"))
        _section(screen, section, width)
    if written:
        screen.line()
        for line in folded(f"Wrote {', '.join(written)}.", width):
            screen.line(line)
    elif shown and migration.texts:
        screen.line()
        for line in folded("Nothing is written: -d DIR writes to a folder, --in-place changes the files.", width):
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


def tell_diff(screen: Screen, migration: Migration) -> None:
    """Only what changes, as ``patch`` reads it."""
    for line in diff(migration):
        screen.line(_painted(screen, line))


def diff(migration: Migration) -> Iterator[str]:
    """What changes, file by file, as a unified diff; new files against ``/dev/null``."""
    for file, text in new_texts(migration).items():
        before = migration.sources.get(file)
        old = [] if before is None else before.splitlines()
        name = "/dev/null" if before is None else file
        yield from unified_diff(old, text.splitlines(), name, file, lineterm="")


def new_texts(migration: Migration) -> dict[str, str]:
    """The texts of files that change or are new, by name; new classes have a file of their own."""
    texts = {file: text for file, text in migration.texts.items() if text != migration.sources.get(file)}
    if migration.classes:
        texts[CLASSES_FILE] = "---\n".join(one.text for one in migration.classes)
    return texts


def _summary(migration: Migration) -> str:
    counts = Counter(one.decision.outcome for one in migration.workloads)
    total = sum(counts.values())
    if not total:
        return "No workload asks a device plugin for a GPU that is known here: nothing changes."
    told = [
        f"{counts[outcome]} {one if counts[outcome] == 1 else many}"
        for outcome, (one, many, _) in _COUNTED.items()
        if counts[outcome]
    ]
    subject = "1 workload asks" if total == 1 else f"{total} workloads ask"
    return f"{subject} a device plugin for GPUs: {', '.join(told)}."


def _workload(screen: Screen, one: Migrated, width: int) -> None:
    verdict = one.decision.outcome
    screen.line(f"{one.file}:{one.line} {one.subject}: {screen.paint(_verdict(one), _COUNTED[verdict][2])}")
    texts = [one.decision.reason]
    texts += [f"hint: {one.decision.hint}"] if one.decision.hint else []
    texts += [f"decided on: {'; '.join(one.decision.basis)}"]
    for label in one.labels:
        if label.expression:
            texts.append(f"{label.term} becomes {label.expression}")
        elif label.dropped:
            texts.append(f"{label.term} goes: {label.why}")
    texts += [f"note: {note}" for note in one.notes]
    for text in texts:
        for line in folded(text, width, "  "):
            screen.line(line)


def _verdict(one: Migrated) -> str:
    match one.decision.outcome:
        case "template":
            return f"claims from template {one.claim_name}"
        case "claim":
            return f"shares claim {one.claim_name}"
        case "class":
            return f"stays, served by class {', '.join(one.decision.needs.classes)}"
        case "leave":
            return "stays with the device plugin"
        case "cannot":
            return "cannot be migrated"


def _painted(screen: Screen, line: str) -> str:
    if line.startswith(("---", "+++")):
        return screen.paint(line, "bold")
    if line.startswith(("+", "-")):
        return screen.paint(line, "green" if line.startswith("+") else "red")
    return screen.paint(line, "dim") if line.startswith("@@") else line
