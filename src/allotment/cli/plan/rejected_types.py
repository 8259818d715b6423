"""Prints for each group of equal pods the types that fit, and why others do not: the nearest misses, or all."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Final

from allotment.cli.output.console import Screen, folded
from allotment.phrases import counted
from allotment.planning.reasons.wording import abbreviated_names, dollars
from allotment.planning.report import GroupVerdicts, ProvisioningPlan, TypeVerdict

_WIDTH: Final = 80
#: Default number of rejected types per group, and of groups.
_NEAREST: Final = 3
_GROUPS: Final = 6


def print_verdicts(screen: Screen, plan: ProvisioningPlan, choices: Sequence[GroupVerdicts], why: str | None) -> None:
    """Print verdicts. ``why``: a pattern of types to print completely; without it only the nearest of each group."""
    if why is not None:
        for number, choice in enumerate(choices):
            if number:
                screen.line()
            _all(screen, choice, why)
        return
    screen.line("Why other types were rejected:")
    for choice in sorted(choices, key=lambda group: -len(group.pods))[:_GROUPS]:
        _nearest(screen, choice, {machine.instance for machine in plan.machines if _on(choice, machine.placements)})
    more = len(choices) - _GROUPS
    if more > 0:
        screen.line(f"  and {counted(more, 'more group')} of pods (--why shows all)")


def _on(choice: GroupVerdicts, placements: Sequence[object]) -> bool:
    pods = set(choice.pods)
    return any(getattr(placement, "pod", None) in pods for placement in placements)


def title_of(choice: GroupVerdicts) -> str:
    """Return the title of a group."""
    if choice.owner:
        more = f" ({counted(len(choice.pods), 'pod')})" if len(choice.pods) > 1 else ""
        return f"{choice.owner}{more}"
    names = abbreviated_names([str(pod) for pod in choice.pods[:50]])
    runs = names.split(", ")
    return names if len(runs) <= 2 else f"{', '.join(runs[:2])}, … ({len(choice.pods)} pods)"


def _nearest(screen: Screen, choice: GroupVerdicts, taken: set[str]) -> None:
    width = screen.width or _WIDTH
    serving = [verdict for verdict in choice.verdicts if not verdict.code]
    for line in folded(f"{title_of(choice)}: {_serving(serving, taken)}", width, "  "):
        screen.line(line)
    missing = [verdict for verdict in choice.verdicts if verdict.code]
    if serving:  # types excluded by the user's own limits are shown only if nothing else is left
        missing.sort(key=lambda verdict: verdict.code == "limits")
    shown = different(missing)[:_NEAREST]
    rows = [[f"    {verdict.instance}", _price(verdict.per_hour), _why(verdict)] for verdict in shown]
    if rows:
        _headless(screen, rows, width)


def different(verdicts: Sequence[TypeVerdict]) -> list[TypeVerdict]:
    """Return the first verdict of each text: eight sizes of a machine with one reason are printed once."""
    found: dict[str, TypeVerdict] = {}
    for verdict in verdicts:
        found.setdefault(verdict.text, verdict)
    return list(found.values())


def _serving(serving: Sequence[TypeVerdict], taken: set[str]) -> str:
    if not serving:
        return "no type fits"
    first = next((verdict for verdict in serving if verdict.instance in taken), serving[0])
    others = [verdict for verdict in serving if verdict.instance != first.instance]
    text = f"{first.instance}, {_terms(first)}"
    if others:
        verb = "fits" if len(others) == 1 else "fit"
        cheapest = min(others, key=lambda verdict: (verdict.per_hour is None, verdict.per_hour or Decimal(0)))
        also = counted(len({verdict.instance for verdict in others}), "other type")
        fewer = f" for {counted(cheapest.holds, 'pod')}" if cheapest.holds < first.holds else ""
        text += f"; {also} also {verb}, from {dollars(cheapest.per_hour)} USD/h{fewer} ({cheapest.instance})"
    return text


def _terms(verdict: TypeVerdict) -> str:
    terms = (
        f"{dollars(verdict.per_hour)} USD/h for {verdict.holds} pods"
        if verdict.holds > 1
        else f"{dollars(verdict.per_hour)} USD/h"
    )
    terms += f" in mode {verdict.mode}" if verdict.mode else ""
    return f"{terms}, borderline" if verdict.borderline else terms


def _why(verdict: TypeVerdict) -> str:
    return f"{verdict.text} (borderline)" if verdict.borderline else verdict.text


def _price(price: Decimal | None) -> str:
    return dollars(price) if price is not None else "unknown"


def _headless(screen: Screen, rows: Sequence[Sequence[str]], width: int) -> None:
    """Return aligned cells; the last is folded in its column, or below the row if a word is too long for that."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]) - 1)]
    for row in rows:
        start = "   ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=False))
        room = max(width - len(start) - 3, 24)
        if max(map(len, row[-1].split()), default=0) > room:
            screen.line(start.rstrip())
            for line in folded(row[-1], width, " " * 6):
                screen.line(line)
            continue
        first, *rest = folded(row[-1], room)
        screen.line(f"{start}   {first}")
        for line in rest:
            screen.line(f"{' ' * len(start)}   {line.strip()}")


def _all(screen: Screen, choice: GroupVerdicts, pattern: str) -> None:
    """Print the verdicts of all types for a group."""
    screen.line(screen.paint(f"{title_of(choice)}:", "bold"))
    chosen = [
        verdict for verdict in choice.verdicts if fnmatchcase(verdict.instance, pattern) or pattern in verdict.instance
    ]
    if not chosen:
        screen.line(f"  no type in the catalog matches {pattern!r}")
        return
    rows = [(f"  {verdict.instance}", _price(verdict.per_hour), _verdict(verdict)) for verdict in chosen]
    _headless(screen, [("  TYPE", "USD/H", "VERDICT"), *rows], screen.width or _WIDTH)


def _verdict(verdict: TypeVerdict) -> str:
    """Return the reason of a rejection, or how many of the pods fit on one machine, and in which mode."""
    if verdict.code:
        return _why(verdict)
    text = f"serves {verdict.holds}" + (f" in mode {verdict.mode}" if verdict.mode else "")
    note = verdict.text.removeprefix("serves").strip()
    return " ".join(filter(None, (text, note, "(borderline)" if verdict.borderline else "")))
