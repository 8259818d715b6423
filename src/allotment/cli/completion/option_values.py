"""Maps options and arguments to their completions: by choices, else by option name or metavar.

Functions import what they need when they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from allotment.cli.completion import cluster_objects, packaged_names
from allotment.cli.completion.command_line import Candidate, Line
from allotment.model import DEFAULT_RELEASE

Known: TypeAlias = Callable[[Line], Iterable[Candidate]]


def _nothing(line: Line) -> Iterable[Candidate]:
    return ()


class ValueSource(NamedTuple):
    """The completion of a value: a function, and whether it is a comma-separated list or a path."""

    known: Known = _nothing
    several: bool = False
    paths: Literal["", "files", "folders"] = ""


_FILES: Final = ValueSource(paths="files")
_FOLDERS: Final = ValueSource(paths="folders")
_PROVIDERS: Final = ValueSource(packaged_names.providers, several=True, paths="files")
_HARDWARE: Final = ValueSource(packaged_names.hardware)
_TYPES: Final = ValueSource(packaged_names.instance_types)
_OBJECTS: Final = ValueSource(cluster_objects.named)

#: By option (``--context``) or metavar (``FILE``), with the command as prefix where that is ambiguous.
VALUES: Final[Mapping[str, ValueSource]] = {
    "FILE": _FILES,
    "DIR": _FOLDERS,
    "SOCKET": _FILES,
    "TRACE": ValueSource(packaged_names.traces, paths="files"),
    "NAMES|FILE": _PROVIDERS,
    "SPEC": ValueSource(packaged_names.hardware, several=True),
    "HARDWARE": _HARDWARE,
    "TYPE": _TYPES,
    "catalog list PATTERN": _TYPES,
    "catalog export PATTERN": _TYPES,
    "--types": _TYPES,
    "--provider": ValueSource(packaged_names.providers, several=True),
    "RULE": ValueSource(packaged_names.rules),
    "check CODES": ValueSource(packaged_names.rules, several=True),
    "doctor CODES": ValueSource(packaged_names.checks, several=True),
    "COMPONENT": ValueSource(packaged_names.parts),
    "EXAMPLE": ValueSource(packaged_names.examples),
    "DRIVER|VENDOR": ValueSource(packaged_names.drivers_and_vendors),
    "rbac --driver": ValueSource(packaged_names.drivers),
    "check NAME=RELEASE": ValueSource(packaged_names.driver_releases),
    "KIND": ValueSource(packaged_names.kinds_of_schemas),
    "up COMPONENT": ValueSource(packaged_names.programs, several=True),
    "claim PROFILE": ValueSource(packaged_names.mig_profiles),
    "claim --model": ValueSource(packaged_names.hardware),
    "claim --class": ValueSource(packaged_names.device_classes),
    "replay NAMES": ValueSource(packaged_names.policies, several=True),
    DEFAULT_RELEASE: ValueSource(packaged_names.releases),
    "--feature-gates": ValueSource(packaged_names.gates, several=True),
    "--runtime-config": ValueSource(packaged_names.api_versions, several=True),
    "get FORMAT": ValueSource(packaged_names.forms_of_objects),
    "wait CONDITION": ValueSource(packaged_names.conditions),
    "down NAME": ValueSource(cluster_objects.labs),
    "--context": ValueSource(cluster_objects.contexts),
    "--namespace": ValueSource(cluster_objects.namespaces),
    "--lease-namespace": ValueSource(cluster_objects.namespaces),
    "--container": ValueSource(cluster_objects.containers),
    "--device-class": ValueSource(cluster_objects.device_classes),
    "driver run --node-name": ValueSource(cluster_objects.nodes),
    "driver verify --node-name": ValueSource(cluster_objects.nodes),
    "run driver --node-name": ValueSource(cluster_objects.nodes),
    "POD|CLAIM": ValueSource(cluster_objects.explained),
    "plan --only": ValueSource(cluster_objects.explained),
    "POD|KIND/NAME": ValueSource(cluster_objects.logged),
    "KIND[/NAME]": _OBJECTS,
    "KIND/NAME": _OBJECTS,
}


def wanted(line: Line) -> ValueSource:
    """Return the completion of the value that the last word of a line is."""
    action = line.action
    assert action is not None
    if action.nargs == 0:
        return ValueSource(_switched)
    if action.choices is not None:
        return ValueSource(lambda line: (Candidate(str(choice)) for choice in action.choices or ()))
    names = [*reversed(action.option_strings), str(action.metavar)]
    found = (VALUES.get(name) for known in names for name in (f"{line.command} {known}", known))
    return next((kind for kind in found if kind is not None), ValueSource())


def _switched(line: Line) -> Iterable[Candidate]:
    """Yield ``true`` and ``false`` for a boolean option that accepts them."""
    assert line.action is not None
    for name in line.parser._option_string_actions:
        switch, _, value = name.partition("=")
        if value and switch in line.action.option_strings:
            yield Candidate(value)
