"""Violations of Pod Security checks, and the parts of pods that the checks read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from allotment.model.trees import Tree


class Violation(NamedTuple):
    """The rule of a check that a pod violates, and the values of the pod that violate it.

    >>> str(Violation("hostPort", 'container "a" uses hostPort 80'))
    'hostPort (container "a" uses hostPort 80)'
    """

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


#: Checks the metadata and the spec of a pod or of a template.
Check = Callable[[Tree, Tree], Violation | None]


def containers(spec: Tree) -> Iterator[Tree]:
    """All containers of a pod in the order in which checks report them."""
    for part in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(part) or ()


def security_context(holder: Tree) -> Tree:
    """The security context of a container or a pod; empty if it has none."""
    context: Tree = holder.get("securityContext") or {}
    return context


def is_windows(spec: Tree) -> bool:
    """Whether a pod states that it runs on Windows."""
    return (spec.get("os") or {}).get("name") == "windows"


def has_user_namespace(spec: Tree) -> bool:
    """Whether a pod runs in a user namespace, in which root has no rights on the node."""
    return spec.get("hostUsers") is False


def plural(singular: str, items: Sequence[object]) -> str:
    """A noun in the number that fits the items.

    >>> plural("volume", ["a", "b"])
    'volumes'
    """
    return singular if len(items) == 1 else f"{singular}s"


def quoted(items: Iterable[str]) -> str:
    """Items in quotes.

    >>> quoted(["a", "b"])
    '"a", "b"'
    """
    return ", ".join(f'"{item}"' for item in items)


def named(noun: str, names: Sequence[str]) -> str:
    """Names after their noun.

    >>> named("container", ["a"])
    'container "a"'
    """
    return f"{plural(noun, names)} {quoted(names)}"


def setters(*, pod: bool, names: Sequence[str]) -> list[str]:
    """The parts that set a forbidden value: the pod, and the containers with these names."""
    return ["pod"] * pod + ([named("container", names)] if names else [])


def names_where(spec: Tree, is_bad: Callable[[Tree], bool]) -> list[str]:
    """The names of the containers to which a condition applies."""
    return [container.get("name") or "" for container in containers(spec) if is_bad(container)]
