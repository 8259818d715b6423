"""The resources of a lab, by the names that users write."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from allotment.apiserver.kinds.kind import ServedKind
from allotment.cluster.client import Resource
from allotment.model.trees import Tree


class UnknownKind(LookupError):
    """Raised if no resource has the given name, or an object has no apiVersion or kind."""


def resource_of(kind: ServedKind, version: str = "") -> Resource:
    """Return the resource of a kind, in the given version or the preferred one."""
    return Resource(kind.group, version or kind.versions[0], kind.plural, kind.kind, kind.namespaced)


def by_word(kinds: Iterable[ServedKind], word: str) -> Resource:
    """Return the resource with this kind, plural, singular or short name. Raises UnknownKind."""
    listed = tuple(kinds)
    wanted = word.lower()
    for kind in listed:
        if wanted in _words(kind):
            return resource_of(kind)
    raise _unknown(word, (known for kind in listed for known in _words(kind)))


def by_object(kinds: Iterable[ServedKind], tree: Tree) -> Resource:
    """Return the resource of an object. Raises UnknownKind."""
    api_version, kind = tree.get("apiVersion"), tree.get("kind")
    if not kind:
        raise UnknownKind("kind is missing")
    if not api_version:
        raise UnknownKind(f"{kind}: apiVersion is missing")
    return by_type(kinds, str(api_version), str(kind))


def by_type(kinds: Iterable[ServedKind], api_version: str, name: str) -> Resource:
    """Return the resource of an apiVersion and kind. Raises UnknownKind."""
    group, _, version = api_version.rpartition("/")
    listed = tuple(kinds)
    for kind in listed:
        if kind.kind == name and kind.group == group and version in kind.versions:
            return resource_of(kind, version)
    if any(kind.kind == name for kind in listed):
        raise _unknown(f"{name} of {api_version}", ())
    raise _unknown(name, (kind.kind for kind in listed))


def _unknown(word: str, known: Iterable[str]) -> UnknownKind:
    spelt = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), list(spelt), 1)
    return UnknownKind(f"unknown kind {word!r}" + (f"; did you mean {spelt[near[0]]!r}?" if near else ""))


def _words(kind: ServedKind) -> tuple[str, ...]:
    singular = kind.singular or kind.kind.lower()
    names = (kind.plural, singular, *kind.short_names)
    return (*names, f"{kind.plural}.{kind.group}", f"{singular}.{kind.group}") if kind.group else names
