"""Which values an option or argument takes: by its choices, else by the name that it has or that its value has.

Nothing is read here: each function imports what it needs when it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from allotment.cli.completing import configured, objects, packaged
from allotment.cli.completing.candidate import Candidate
from allotment.cli.completing.line import Line

Known: TypeAlias = Callable[[Line], Iterable[Candidate]]


def _nothing(line: Line) -> Iterable[Candidate]:
    return ()


class Wanted(NamedTuple):
    """What is known of a value; whether it is a list with commas, or may be a path."""

    known: Known = _nothing
    several: bool = False
    paths: Literal["", "files", "folders"] = ""


_FILES: Final = Wanted(paths="files")
_FOLDERS: Final = Wanted(paths="folders")
_PROVIDERS: Final = Wanted(packaged.providers, several=True, paths="files")
_HARDWARE: Final = Wanted(packaged.hardware)
_TYPES: Final = Wanted(packaged.instance_types)
_OBJECTS: Final = Wanted(objects.named)

#: By option (``--context``) or by what help calls the value (``FILE``); where that says too little, with the command.
VALUES: Final[Mapping[str, Wanted]] = {
    "FILE": _FILES,
    "FOLDER": _FOLDERS,
    "DIR": _FOLDERS,
    "SOCKET": _FILES,
    "TRACE": Wanted(packaged.traces, paths="files"),
    "NAMES|FILE": _PROVIDERS,
    "SPEC": Wanted(packaged.hardware, several=True),
    "HARDWARE": _HARDWARE,
    "TYPE": _TYPES,
    "catalog list PATTERN": _TYPES,
    "catalog export PATTERN": _TYPES,
    "--types": _TYPES,
    "--provider": Wanted(packaged.providers, several=True),
    "RULE": Wanted(packaged.rules),
    "check CODES": Wanted(packaged.rules, several=True),
    "doctor CODES": Wanted(packaged.checks, several=True),
    "PART": Wanted(packaged.parts),
    "EXAMPLE": Wanted(packaged.examples),
    "DRIVER|VENDOR": Wanted(packaged.drivers_and_vendors),
    "rbac --driver": Wanted(packaged.drivers),
    "check NAME=RELEASE": Wanted(packaged.driver_releases),
    "KIND": Wanted(packaged.kinds_of_schemas),
    "PROGRAM": Wanted(packaged.programs, several=True),
    "replay NAMES": Wanted(packaged.policies, several=True),
    "1.36": Wanted(packaged.releases),
    "--feature-gates": Wanted(packaged.gates, several=True),
    "--gates": Wanted(packaged.gates, several=True),
    "get FORMAT": Wanted(packaged.forms_of_objects),
    "wait WHAT": Wanted(packaged.conditions),
    "down NAME": Wanted(configured.labs),
    "--context": Wanted(configured.contexts),
    "--namespace": Wanted(objects.namespaces),
    "--lease-namespace": Wanted(objects.namespaces),
    "--container": Wanted(objects.containers),
    "--device-class": Wanted(objects.device_classes),
    "driver run --node": Wanted(objects.nodes),
    "driver verify --node": Wanted(objects.nodes),
    "run driver --node": Wanted(objects.nodes),
    "POD|CLAIM": Wanted(objects.explained),
    "plan --only": Wanted(objects.explained),
    "POD|KIND/NAME": Wanted(objects.logged),
    "KIND[/NAME]": _OBJECTS,
    "KIND/NAME": _OBJECTS,
}


def wanted(line: Line) -> Wanted:
    """What the last word of a line may be, as a value."""
    action = line.action
    assert action is not None
    if action.nargs == 0:
        return Wanted(_switched)
    if action.choices is not None:
        return Wanted(lambda line: (Candidate(str(one)) for one in action.choices or ()))
    names = [*reversed(action.option_strings), str(action.metavar)]
    found = (VALUES.get(name) for known in names for name in (f"{line.command} {known}", known))
    return next((kind for kind in found if kind is not None), Wanted())


def _switched(line: Line) -> Iterable[Candidate]:
    """``true`` and ``false``, of a switch that may be written so."""
    assert line.action is not None
    for name in line.parser._option_string_actions:
        switch, _, value = name.partition("=")
        if value and switch in line.action.option_strings:
            yield Candidate(value)
