"""A container as its programs see it, and the options of their command lines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from allotment.cluster.clock import Clock
from allotment.model.trees import Tree
from allotment.node.device_view import ContainerDevice
from allotment.node.runtimes.runtime import Connection
from allotment.node.shell_language.process import Process
from allotment.node.shell_language.streams import Streams
from allotment.node.shell_language.syntax import NotSimulated

#: Runs a command that is not a simulated program: words, streams -> exit code.
Application = Callable[[Sequence[str], Streams], Awaitable[int]]


#: Connects to a port of a host. Raises UnknownHost and OSError.
Connect = Callable[[str, int], Awaitable[Connection]]
#: The addresses of a host. Raises UnknownHost.
Addresses = Callable[[str], list[str]]


class User(NamedTuple):
    """The user and groups of a container's processes."""

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()


class ContainerView(NamedTuple):
    """The container as its programs see it. ``application``: set for the container's own command, not for exec.

    ``nodes``: paths of the device nodes that drivers requested. ``network`` and ``addresses``: None without a cluster.
    """

    hostname: str
    devices: tuple[ContainerDevice, ...]
    clock: Clock
    application: Application | None = None
    nodes: tuple[str, ...] = ()
    user: User = User()
    network: Connect | None = None
    addresses: Addresses | None = None


#: Runs a program and returns its exit code. Raises NotSimulated for options that it does not know.
Program = Callable[[Process, ContainerView], Awaitable[int]]


def user_of(pod: Tree, spec: Tree) -> User:
    """The user of a container, from its security context and the pod's; root by default, as no image is known."""
    context = {**(pod["spec"].get("securityContext") or {}), **(spec.get("securityContext") or {})}
    gid = context.get("runAsGroup", 0)
    more = (*(context.get("supplementalGroups") or ()), *((context["fsGroup"],) if "fsGroup" in context else ()))
    return User(context.get("runAsUser", 0), gid, tuple(dict.fromkeys((gid, *more))))


def options(words: Sequence[str], flags: str = "", values: str = "", long: Sequence[str] = ()) -> Options:
    """Read the options of a command line, in any place: single letters, and whole ``long`` ones without a value.

    ``values``: letters with a value, in the same or the next word. Raises NotSimulated for others.
    """
    found: dict[str, str] = {}
    operands: list[str] = []
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        if word == "--":
            operands += rest
            break
        if word.startswith("--"):
            if word not in long:
                raise NotSimulated(f"{words[0]} {word}")
            found[word] = ""
        elif word.startswith("-") and len(word) > 1:
            letters = word[1:]
            while letters:
                letter, letters = letters[0], letters[1:]
                if letter in values:
                    if not letters and not rest:
                        raise NotSimulated(f"{words[0]} -{letter} without a value")
                    found[letter] = letters or rest.pop(0)
                    break
                if letter not in flags:
                    raise NotSimulated(f"{words[0]} -{letter}")
                found[letter] = ""
        else:
            operands.append(word)
    return Options(found, operands)


@dataclass(frozen=True)
class Options:
    """The options of a command line by name, and its operands."""

    given: dict[str, str]
    operands: list[str]

    def __contains__(self, name: str) -> bool:
        return name in self.given
