"""Parser of ``--fleet``: a cluster in one line.

``dgx-a100-40gb:2,t4-4x-pcie:3,4xl4,amd=mi300x-8x-oam/cpx@v0`` is seven machines. Each entry is
``[NAME=][GPUSx]HARDWARE[:NODES][/MODE]``:

- HARDWARE is a server, or an accelerator for a plain machine with GPUS of it (default 1);
- NODES is how many such machines (default 1);
- MODE is how they publish their GPUs (default whole GPUs; ``allot fleet list`` shows the modes);
- NAME is the node name (default the hardware, and the mode if it is not the default one).

A single machine with a NAME has exactly that name. Otherwise names are numbered from 1, over all entries of a name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from allotment.fleet.errors import FleetError
from allotment.fleet.hardware import Hardware, hardware
from allotment.fleet.modes import Mode, mode_label, parse_mode
from allotment.fleet.profiles import servers

#: A larger fleet is probably a typing error, and would exhaust memory.
MAX_NODES = 100_000

FLEET_SYNTAX = "[NAME=][GPUSx]HARDWARE[:NODES][/MODE]"

_ENTRY = re.compile(
    r"(?:(?P<name>[^=/]*)=)?(?:(?P<gpus>[0-9]+)x)?(?P<hardware>[^:/=]*)(?::(?P<nodes>[^/]*))?(?:/(?P<mode>.*))?"
)
_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,40}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class FleetMachine:
    """A machine of a fleet: node name, hardware and mode.

    ``form``: hardware and mode as written, ``[GPUSx]HARDWARE[/MODE]``.
    """

    node: str
    hardware: Hardware
    mode: Mode
    form: str = ""


@dataclass(frozen=True, slots=True)
class _FleetEntry:
    name: str
    has_exact_name: bool
    hardware: Hardware
    mode: Mode
    nodes: int
    form: str


def parse_fleet(descriptions: Iterable[str]) -> tuple[FleetMachine, ...]:
    """Return the machines of fleet descriptions, in the order written. Raises FleetError.

    >>> [machine.node for machine in parse_fleet(["t4-4x-pcie:2,big=dgx-a100-40gb"])]
    ['t4-4x-pcie-1', 't4-4x-pcie-2', 'big']
    >>> parse_fleet(["dgx-a100-40gb:3/dynamic-mig"])[2].form
    'dgx-a100-40gb/dynamic-mig'
    """
    entries = [_parse(text.strip()) for description in descriptions for text in description.split(",")]
    total = sum(entry.nodes for entry in entries)
    if total > MAX_NODES:
        raise FleetError(f"fleet of {total} nodes: expected at most {MAX_NODES}")
    numbers: Counter[str] = Counter()
    machines: list[FleetMachine] = []
    for entry in entries:
        for _ in range(entry.nodes):
            numbers[entry.name] += 1
            node = entry.name if entry.has_exact_name else f"{entry.name}-{numbers[entry.name]}"
            machines.append(FleetMachine(node, entry.hardware, entry.mode, entry.form))
    for node, count in Counter(machine.node for machine in machines).items():
        if count > 1:
            raise FleetError(f"duplicate node name {node!r}", "set a different NAME= for one of them")
    return tuple(machines)


def _parse(text: str) -> _FleetEntry:
    found = _ENTRY.fullmatch(text)
    if not text or found is None or not found["hardware"]:
        raise FleetError(f"fleet entry {text!r}: expected {FLEET_SYNTAX}", "for example dgx-a100-40gb:2,t4-4x-pcie:3")
    try:
        machine = _hardware(found["hardware"], found["gpus"])
        mode = parse_mode(found["mode"] or "", machine)
        nodes = _nodes(found["nodes"])
    except FleetError as error:
        raise FleetError(f"fleet entry {text!r}: {error.problem}", error.hint) from None
    name = found["name"]
    if name is not None and _NODE_NAME.fullmatch(name) is None:
        raise FleetError(
            f"fleet entry {text!r}: {name!r} is not a valid node name", "use lower-case letters, digits and -"
        )
    default = f"{machine.id}-{mode_label(mode)}" if mode_label(mode) else machine.id
    count = f"{found['gpus']}x" if found["gpus"] else ""
    form = f"{count}{found['hardware']}{'/' if found['mode'] else ''}{found['mode'] or ''}"
    return _FleetEntry(name or default, name is not None and found["nodes"] is None, machine, mode, nodes, form)


def _hardware(name: str, gpus: str | None) -> Hardware:
    if gpus is not None and name in servers():
        raise FleetError(f"{name} is a whole server", f"for {gpus} of them write {name}:{gpus}")
    return hardware(name, None if gpus is None else int(gpus[:9]))


def _nodes(text: str | None) -> int:
    if text is None:
        return 1
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= MAX_NODES):
        raise FleetError(f"expected a number of nodes from 1 to {MAX_NODES} after the colon, found {text!r}")
    return int(text[:9])
