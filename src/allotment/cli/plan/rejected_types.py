"""Why these types and no others: for each group of equal pods what serves it and the nearest misses, or all of it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Final

from allotment.cli.output.console import Screen, folded
from allotment.phrases import counted
from allotment.tools.plan.reasons.wording import abbreviated_names, dollars
from allotment.tools.plan.report import GroupVerdicts, ProvisioningPlan, TypeVerdict

_WIDTH: Final = 80
#: Refusals that are told of a group, and groups that are told, where nobody asks for all.
_NEAREST: Final = 3
_GROUPS: Final = 6


def print_verdicts(screen: Screen, plan: ProvisioningPlan, choices: Sequence[GroupVerdicts], why: str | None) -> None:
    """``why``: a pattern of types, of which every verdict is told; without it the nearest of each group."""
    if why is not None:
        for number, choice in enumerate(choices):
            if number:
                screen.line()
            _all(screen, choice, why)
        return
    screen.line("Why other types were rejected:")
    for choice in sorted(choices, key=lambda one: -len(one.pods))[:_GROUPS]:
        _nearest(screen, choice, {machine.instance for machine in plan.machines if _on(choice, machine.seats)})
    more = len(choices) - _GROUPS
    if more > 0:
        screen.line(f"  and of {counted(more, 'more group')} of pods; --why shows all")


def _on(choice: GroupVerdicts, seats: Sequence[object]) -> bool:
    pods = set(choice.pods)
    return any(getattr(seat, "pod", None) in pods for seat in seats)


def title_of(choice: GroupVerdicts) -> str:
    """Whose choice it is."""
    if choice.owner:
        more = f" ({counted(len(choice.pods), 'pod')})" if len(choice.pods) > 1 else ""
        return f"{choice.owner}{more}"
    names = abbreviated_names([str(pod) for pod in choice.pods[:50]])
    runs = names.split(", ")
    return names if len(runs) <= 2 else f"{', '.join(runs[:2])}, … ({len(choice.pods)} pods)"


def _nearest(screen: Screen, choice: GroupVerdicts, taken: set[str]) -> None:
    width = screen.width or _WIDTH
    serving = [one for one in choice.verdicts if not one.code]
    for line in folded(f"{title_of(choice)}: {_serving(serving, taken)}", width, "  "):
        screen.line(line)
    missing = [one for one in choice.verdicts if one.code]
    if serving:  # what the user has ruled out himself is no news, unless nothing is left
        missing.sort(key=lambda one: one.code == "limits")
    shown = different(missing)[:_NEAREST]
    rows = [[f"    {one.instance}", _price(one.per_hour), _why(one)] for one in shown]
    if rows:
        _headless(screen, rows, width)


def different(verdicts: Sequence[TypeVerdict]) -> list[TypeVerdict]:
    """The first verdict of each text: eight sizes of one machine with one reason are told once."""
    found: dict[str, TypeVerdict] = {}
    for one in verdicts:
        found.setdefault(one.text, one)
    return list(found.values())


def _serving(serving: Sequence[TypeVerdict], taken: set[str]) -> str:
    if not serving:
        return "no type serves"
    first = next((one for one in serving if one.instance in taken), serving[0])
    others = [one for one in serving if one.instance != first.instance]
    text = f"{first.instance}, {_terms(first)}"
    if others:
        verb = "does" if len(others) == 1 else "do"
        cheapest = min(others, key=lambda one: (one.per_hour is None, one.per_hour or Decimal(0)))
        also = counted(len({one.instance for one in others}), "other type")
        fewer = f" for {cheapest.holds}" if cheapest.holds < first.holds else ""
        text += f"; {also} {verb} as well, from {dollars(cheapest.per_hour)}{fewer} ({cheapest.instance})"
    return text


def _terms(one: TypeVerdict) -> str:
    terms = f"{dollars(one.per_hour)} USD/h for {one.holds}" if one.holds > 1 else f"{dollars(one.per_hour)} USD/h"
    terms += f" in mode {one.mode}" if one.mode else ""
    return f"{terms}, borderline" if one.borderline else terms


def _why(one: TypeVerdict) -> str:
    return f"{one.text} (borderline)" if one.borderline else one.text


def _price(price: Decimal | None) -> str:
    return dollars(price) if price is not None else "unknown"


def _headless(screen: Screen, rows: Sequence[Sequence[str]], width: int) -> None:
    """Aligned cells, the last of them folded below itself; where a word is too long for that, below the row."""
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
    """The whole table of a group."""
    screen.line(screen.paint(f"{title_of(choice)}:", "bold"))
    chosen = [one for one in choice.verdicts if fnmatchcase(one.instance, pattern) or pattern in one.instance]
    if not chosen:
        screen.line(f"  no type of the catalog matches {pattern!r}")
        return
    rows = [(f"  {one.instance}", _price(one.per_hour), _verdict(one)) for one in chosen]
    _headless(screen, [("  TYPE", "USD/H", "VERDICT"), *rows], screen.width or _WIDTH)


def _verdict(one: TypeVerdict) -> str:
    """Why not, or how many of the group's pods one such machine holds, in which mode."""
    if one.code:
        return _why(one)
    text = f"serves {one.holds}" + (f" in mode {one.mode}" if one.mode else "")
    note = one.text.removeprefix("serves").strip()
    return " ".join(filter(None, (text, note, "(borderline)" if one.borderline else "")))
