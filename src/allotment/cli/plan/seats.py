"""Pods on a machine with their devices, a line for each workload where its pods are many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from allotment.tools.plan.reasons.machine_groups import Alike
from allotment.tools.plan.reasons.wording import names_in_short
from allotment.tools.plan.report import Seat

#: Pods of one workload on one machine that are told one by one.
_EACH: Final = 3
#: Devices that are named one by one.
_NAMED: Final = 3
#: Runs of names of pods.
_RUNS: Final = 4


def seat_lines(sort: Alike, plain: bool) -> list[str]:
    """Who is on machines of a sort. ``plain``: all pods are of one namespace, which is not said."""
    by_owner: dict[str, list[Seat]] = {}
    for seat in sort.first.seats:
        by_owner.setdefault(seat.owner, []).append(seat)
    lines = []
    for owner, seats in by_owner.items():
        if len(sort.machines) == 1 and len(seats) <= _EACH:
            lines += [_line([_name(seat, plain)], _devices([seat])) for seat in seats]
            continue
        every = [_name(s, plain) for machine in sort.machines for s in machine.seats if s.owner == owner]
        text = _line(every, _devices(seats))
        lines.append(f"{text} on each" if len(sort.machines) > 1 else text)
    return lines


def _line(pods: Sequence[str], devices: str) -> str:
    names = _short(pods)
    return f"{names}  {devices}" if devices else names


def _short(pods: Sequence[str]) -> str:
    runs = names_in_short(sorted(pods, key=_order)).split(", ")
    return ", ".join(runs) if len(runs) <= _RUNS else f"{', '.join(runs[: _RUNS - 1])}, … ({len(pods)} pods)"


def _order(name: str) -> tuple[str, int]:
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or -1)


def _name(seat: Seat, plain: bool) -> str:
    return seat.pod.name if plain else str(seat.pod)


def _devices(seats: Iterable[Seat]) -> str:
    """The devices of seats; a share is told with its amount, and with its name where there are several sorts."""
    names: dict[str, None] = {}
    shares: dict[str, None] = {}
    for seat in seats:
        for claim in seat.claims:
            for device in claim.devices:
                names[device.device] = None
                if text := _share(device.share):
                    shares[text] = None
    found = list(names)
    text = ", ".join(found) if len(found) <= _NAMED else f"{found[0]} … {found[-1]}"
    if len(shares) == 1:
        text += f" ({next(iter(shares))} each)"
    elif shares:
        text += f" ({', '.join(shares) if len(shares) <= _NAMED else f'{len(shares)} amounts'})"
    return text


def _share(share: Mapping[str, str]) -> str:
    """What a share gives: ``9Gi``, or ``shares 2`` where it is no memory; nothing is told of what it gives none of."""
    given = [(name, amount) for name, amount in share.items() if amount != "0"]
    return ", ".join(amount if name == "memory" else f"{name} {amount}" for name, amount in given)
