"""Maps options and arguments to their completions: by choices, else by option name or metavar.

Functions import what they need when they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from allotment.cli.completion import cluster_objects, local_clusters, packaged_names
from allotment.cli.completion.candidate import Candidate
from allotment.cli.completion.command_line import Line

Known: TypeAlias = Callable[[Line], Iterable[Candidate]]


def _nothing(line: Line) -> Iterable[Candidate]:
    return ()


class Wanted(NamedTuple):
    """The completion of a value: a function, and whether it is a comma-separated list or a path."""

    known: Known = _nothing
    several: bool = False
    paths: Literal["", "files", "folders"] = ""


_FILES: Final = Wanted(paths="files")
_FOLDERS: Final = Wanted(paths="folders")
_PROVIDERS: Final = Wanted(packaged_names.providers, several=True, paths="files")
_HARDWARE: Final = Wanted(packaged_names.hardware)
_TYPES: Final = Wanted(packaged_names.instance_types)
_OBJECTS: Final = Wanted(cluster_objects.named)

#: By option (``--context``) or metavar (``FILE``), with the command as prefix where that is ambiguous.
VALUES: Final[Mapping[str, Wanted]] = {
    "FILE": _FILES,
    "DIR": _FOLDERS,
    "SOCKET": _FILES,
    "TRACE": Wanted(packaged_names.traces, paths="files"),
    "NAMES|FILE": _PROVIDERS,
    "SPEC": Wanted(packaged_names.hardware, several=True),
    "HARDWARE": _HARDWARE,
    "TYPE": _TYPES,
    "catalog list PATTERN": _TYPES,
    "catalog export PATTERN": _TYPES,
    "--types": _TYPES,
    "--provider": Wanted(packaged_names.providers, several=True),
    "RULE": Wanted(packaged_names.rules),
    "check CODES": Wanted(packaged_names.rules, several=True),
    "doctor CODES": Wanted(packaged_names.checks, several=True),
    "COMPONENT": Wanted(packaged_names.parts),
    "EXAMPLE": Wanted(packaged_names.examples),
    "DRIVER|VENDOR": Wanted(packaged_names.drivers_and_vendors),
    "rbac --driver": Wanted(packaged_names.drivers),
    "check NAME=RELEASE": Wanted(packaged_names.driver_releases),
    "KIND": Wanted(packaged_names.kinds_of_schemas),
    "up COMPONENT": Wanted(packaged_names.programs, several=True),
    "replay NAMES": Wanted(packaged_names.policies, several=True),
    "1.36": Wanted(packaged_names.releases),
    "--feature-gates": Wanted(packaged_names.gates, several=True),
    "get FORMAT": Wanted(packaged_names.forms_of_objects),
    "wait CONDITION": Wanted(packaged_names.conditions),
    "down NAME": Wanted(local_clusters.labs),
    "--context": Wanted(local_clusters.contexts),
    "--namespace": Wanted(cluster_objects.namespaces),
    "--lease-namespace": Wanted(cluster_objects.namespaces),
    "--container": Wanted(cluster_objects.containers),
    "--device-class": Wanted(cluster_objects.device_classes),
    "driver run --node-name": Wanted(cluster_objects.nodes),
    "driver verify --node-name": Wanted(cluster_objects.nodes),
    "run driver --node-name": Wanted(cluster_objects.nodes),
    "POD|CLAIM": Wanted(cluster_objects.explained),
    "plan --only": Wanted(cluster_objects.explained),
    "POD|KIND/NAME": Wanted(cluster_objects.logged),
    "KIND[/NAME]": _OBJECTS,
    "KIND/NAME": _OBJECTS,
}


def wanted(line: Line) -> Wanted:
    """Return the completion of the value that the last word of a line is."""
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
    """Yield ``true`` and ``false`` for a boolean option that accepts them."""
    assert line.action is not None
    for name in line.parser._option_string_actions:
        switch, _, value = name.partition("=")
        if value and switch in line.action.option_strings:
            yield Candidate(value)
