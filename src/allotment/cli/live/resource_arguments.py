"""What the words of a command line ask for: ``pods``, ``pod/a``, ``pods,services``, ``deploy web api``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from allotment.cli.output.errors import Failure
from allotment.cluster.inspection.discovery import Discovery, Served


class ResourceArgument(NamedTuple):
    """One object, or (without a name) all of a kind."""

    served: Served
    name: str = ""

    def place(self, namespace: str) -> str:
        """The namespace of a request for it; of cluster-wide kinds there is none."""
        return namespace if self.served.resource.namespaced else ""


def resource_arguments(discovery: Discovery, words: Sequence[str]) -> tuple[ResourceArgument, ...]:
    """What is asked for, in order. Raises Failure."""
    if not words:
        raise Failure("error: you must specify the type of resource", "for example pods, pod/web-0 or resourceclaims")
    if any("/" in word for word in words):
        return tuple(_named(discovery, word, len(words)) for word in words)
    kinds = [one for word in words[0].split(",") if word for one in kinds_of(discovery, word)]
    names = words[1:]
    return tuple(ResourceArgument(kind, name) for kind in kinds for name in names) or tuple(ResourceArgument(kind) for kind in kinds)


def kinds_of(discovery: Discovery, word: str) -> tuple[Served, ...]:
    """The kinds that a word means: one, or those of a category."""
    found = discovery.by_word(word)
    return (found,) if found is not None else discovery.in_category(word) or (kind_of(discovery, word),)


def kind_of(discovery: Discovery, word: str) -> Served:
    """The kind that a word means. Raises Failure."""
    found = discovery.by_word(word)
    if found is None:
        from difflib import get_close_matches

        known = dict.fromkeys(one.resource.plural for one in discovery.served)
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
    """Whether names alone would not tell what is what."""
    return len({one.served.resource for one in wanted}) > 1


def groups(wanted: Sequence[ResourceArgument]) -> Iterator[tuple[Served, list[ResourceArgument]]]:
    """What stands together under one header."""
    group: list[ResourceArgument] = []
    for one in wanted:
        if group and group[0].served != one.served:
            yield group[0].served, group
            group = []
        group.append(one)
    if group:
        yield group[0].served, group
