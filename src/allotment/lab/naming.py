"""From the words that people use for kinds to resources: ``pod``, ``po``, ``deployments.apps``; or from their types."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from allotment.apiserver.kinds.kind import Kind
from allotment.cluster.client import Resource


class UnknownKind(LookupError):
    """Nothing is called that."""

    def __init__(self, word: str, known: Iterable[str]) -> None:
        spelt = {name.lower(): name for name in known}
        near = get_close_matches(word.lower(), list(spelt), 1)
        super().__init__(f"no kind is called {word!r}" + (f"; did you mean {spelt[near[0]]!r}?" if near else ""))


def resource_of(kind: Kind, version: str = "") -> Resource:
    """The resource of a kind, in one of its versions or the preferred one."""
    return Resource(kind.group, version or kind.versions[0], kind.plural, kind.kind, kind.namespaced)


def by_word(kinds: Iterable[Kind], word: str) -> Resource:
    """The resource that a word means. Raises UnknownKind."""
    listed = tuple(kinds)
    wanted = word.lower()
    for kind in listed:
        if wanted in _words(kind):
            return resource_of(kind)
    raise UnknownKind(word, (known for kind in listed for known in _words(kind)))


def by_type(kinds: Iterable[Kind], api_version: str, name: str) -> Resource:
    """The resource of objects that say so of themselves. Raises UnknownKind."""
    group, _, version = api_version.rpartition("/")
    listed = tuple(kinds)
    for kind in listed:
        if kind.kind == name and kind.group == group and version in kind.versions:
            return resource_of(kind, version)
    if any(kind.kind == name for kind in listed):
        raise UnknownKind(f"{name} of {api_version}", ())
    raise UnknownKind(name, (kind.kind for kind in listed))


def _words(kind: Kind) -> tuple[str, ...]:
    singular = kind.singular or kind.kind.lower()
    names = (kind.plural, singular, *kind.short_names)
    return (*names, f"{kind.plural}.{kind.group}", f"{singular}.{kind.group}") if kind.group else names
