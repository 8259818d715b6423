"""Everything public as data: commands, exit codes, metrics, chart values, queries and the Python API.

A release keeps everything in the description of the last one (``docs/reference/compatibility.md``): additions are
compatible, removals and changes are not.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator
from typing import Any

import allotment
from allotment.cli import main
from allotment.cli.parser import EXIT_BAD_INPUT
from allotment.exporter.definitions import COMPONENTS, METRICS
from allotment.queries.schemas import request_schema
from allotment.queries.table import QUERIES, Query
from tests.packaging import values_page

Description = dict[str, Any]


def description() -> Description:
    """Everything public except the JSON output, for which :mod:`tests.compatibility.json_output` has schemas."""
    return {
        "commands": dict(commands(main.command_line())),
        "exit codes": {
            "success": 0, "something does not fit": 1, "invalid input": EXIT_BAD_INPUT,
            "internal error": main.EXIT_INTERNAL_ERROR,
        },
        "metrics": metrics(),
        "chart values": sorted(value.path for value in values_page.values()),
        "queries": {query.name: fields_of(query) for query in QUERIES},
        "python": {name: member(getattr(allotment, name)) for name in allotment.__all__ if name != "__version__"},
    }  # fmt: skip


def commands(parser: argparse.ArgumentParser, before: str = "") -> Iterator[tuple[str, Description]]:
    """The arguments of each command, without those that help does not show."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield f"{before}{name}", arguments(command)
                yield from commands(command, f"{before}{name} ")


def arguments(command: argparse.ArgumentParser) -> Description:
    """The positional arguments and the options of a command; the choices of each, if they are limited."""
    found: Description = {}
    for action in command._actions:
        if action.help == argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction):
            continue
        takes_value = action.nargs != 0
        choices = sorted(map(str, action.choices)) if takes_value and action.choices else []
        for name in action.option_strings or [str(action.metavar or action.dest)]:
            found[name] = {"value": takes_value, "choices": choices}
    return found


def metrics() -> Description:
    """The type and the labels of each metric."""
    every = (*METRICS.values(), *COMPONENTS)
    return {metric.name: {"type": metric.kind, "labels": list(metric.labels)} for metric in every}


def fields_of(query: Query[Any]) -> Description:
    """The fields of a request, and whether each is required."""
    schema = request_schema(query.request)
    return {name: {"required": name in schema.get("required", ())} for name in schema["properties"]}


def member(value: Any) -> Description:
    """The parameters of a function, or the public members of a class."""
    if inspect.isclass(value):
        names = [name for name in dir(value) if not name.startswith("_") and not hasattr(object, name)]
        own = {name: inspect.getattr_static(value, name) for name in names}
        return {"class": {name: parameters(each) if callable(each) else {} for name, each in own.items()}}
    return {"function": parameters(value)}


def parameters(value: Any) -> Description:
    """Each parameter: whether it is required, and whether it can be given by position."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return {}
    return {
        name: {"required": parameter.default is parameter.empty, "position": parameter.kind.name}
        for name, parameter in signature.parameters.items()
        if name not in ("self", "cls")
    }


def removals(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yield each part of the old description that the new one does not have, and each new duty of callers."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name, value in old.items():
            place = f"{path}: {name}" if path else str(name)
            if name in new:
                yield from removals(value, new[name], place)
            else:
                yield f"{place} is missing"
        for name in new.keys() - old.keys():
            if isinstance(new[name], dict) and new[name].get("required") is True:
                yield f"{path}: {name} is required"
    elif isinstance(old, list) and isinstance(new, list):
        if path.endswith(": choices") and not (old and new):  # without choices, every value is accepted
            yield from (f"{path}: only {', '.join(map(str, new))}",) if new else ()
        else:
            yield from (f"{path}: {item} is missing" for item in old if item not in new)
    elif old != new:
        yield f"{path}: {old!r} is now {new!r}"
