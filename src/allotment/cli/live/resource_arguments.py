"""Parses resource arguments as kubectl does: ``pods``, ``pod/a``, ``pods,services``, ``deploy web api``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from allotment.cli.output.errors import Failure
from allotment.cluster.inspection.discovery import Discovery, ServedResource


class ResourceArgument(NamedTuple):
    """One object, or (without a name) all of a kind."""

    served: ServedResource
    name: str = ""

    def place(self, namespace: str) -> str:
        """Return the namespace of a request, which is empty for cluster-scoped kinds."""
        return namespace if self.served.resource.namespaced else ""


def resource_arguments(discovery: Discovery, words: Sequence[str]) -> tuple[ResourceArgument, ...]:
    """Return the resource arguments of a command line, in order. Raises Failure."""
    if not words:
        raise Failure("error: you must specify the type of resource", "for example pods, pod/web-0 or resourceclaims")
    if any("/" in word for word in words):
        return tuple(_named(discovery, word, len(words)) for word in words)
    kinds = [matched for word in words[0].split(",") if word for matched in kinds_of(discovery, word)]
    names = words[1:]
    return tuple(ResourceArgument(kind, name) for kind in kinds for name in names) or tuple(
        ResourceArgument(kind) for kind in kinds
    )


def kinds_of(discovery: Discovery, word: str) -> tuple[ServedResource, ...]:
    """Return the kinds that a word names: one, or those of a category."""
    found = discovery.by_word(word)
    return (found,) if found is not None else discovery.in_category(word) or (kind_of(discovery, word),)


def kind_of(discovery: Discovery, word: str) -> ServedResource:
    """Return the kind that a word names. Raises Failure."""
    found = discovery.by_word(word)
    if found is None:
        from difflib import get_close_matches

        known = dict.fromkeys(kind.resource.plural for kind in discovery.served)
        parts = [name for name in known if word.lower() in name]
        near = parts[:4] or get_close_matches(word.lower(), sorted(set(discovery.words())), 1)
        hint = f"did you mean {' or '.join(near)}?" if near else ""
        raise Failure(f'error: the server doesn\'t have a resource type "{word}"', hint)
    return found


def _named(discovery: Discovery, word: str, count: int) -> ResourceArgument:
    kind, slash, name = word.partition("/")
    if not slash:
        raise Failure(
            "error: there is no need to specify a resource type as a separate argument when passing arguments in "
            "resource/name form"
            if count > 1
            else f"error: arguments in resource/name form must have a single resource and name, found {word!r}"
        )
    if not kind or not name or "/" in name:
        raise Failure("error: arguments in resource/name form must have a single resource and name")
    return ResourceArgument(kind_of(discovery, kind), name)


def several_kinds(wanted: Sequence[ResourceArgument]) -> bool:
    """Return whether the arguments are of several kinds, so that names need a prefix."""
    return len({argument.served.resource for argument in wanted}) > 1


def groups(wanted: Sequence[ResourceArgument]) -> Iterator[tuple[ServedResource, list[ResourceArgument]]]:
    """Group the arguments that share a table."""
    group: list[ResourceArgument] = []
    for argument in wanted:
        if group and group[0].served != argument.served:
            yield group[0].served, group
            group = []
        group.append(argument)
    if group:
        yield group[0].served, group
