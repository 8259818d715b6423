"""The claim that takes the place of a pod's extended resources, as values: requests, and which container names which.

All asks of a pod become requests of one claim. A container that stays has requests of its own. An init container ends
before the others start, and the device plugin lets it have what they get later (a pod needs the larger of both, not
the sum); so it names their requests, and has one of its own only for what it asks beyond them.

A container can name one request of a claim, or the whole claim, but not two requests: ``resources.claims`` is a list
with one entry per claim name, and applying a second one is refused (listMapKey in core/v1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from allotment.model.loading.marks import Path
from allotment.tools.migrate.node_affinity import Condition
from allotment.tools.migrate.plugin_requests import Ask, ContainerAsk


class Kind(NamedTuple):
    """What one ask becomes: a request without name and count.

    ``capacity``: what it takes of each device that may be shared. ``admin``: all devices, to look at (KEP-5018).
    """

    class_name: str
    conditions: tuple[Condition, ...] = ()
    capacity: tuple[tuple[str, str], ...] = ()
    admin: bool = False


class Request(NamedTuple):
    """One request of the claim."""

    name: str
    kind: Kind
    number: int


class Config(NamedTuple):
    """Parameters for the driver, for all requests of the claim; ``why`` is the comment above them."""

    driver: str
    parameters: Mapping[str, Any]
    why: str


class Plan(NamedTuple):
    """A claim's spec. ``same`` is an attribute that the devices of the named requests must share."""

    requests: tuple[Request, ...]
    configs: tuple[Config, ...] = ()
    same: tuple[tuple[str, str], ...] = ()

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for plans that make the same claim."""
        return (self.requests, tuple((c.driver, str(c.parameters)) for c in self.configs), self.same)


class Use(NamedTuple):
    """A container and the request that it names; none where it names the whole claim.

    Several cannot be written: that is for whoever decides.
    """

    path: Path
    resources: tuple[str, ...]
    requests: tuple[str, ...]


def planned(
    containers: Iterable[ContainerAsk], kind_of: Callable[[Ask], Kind], same: str = ""
) -> tuple[Plan, tuple[Use, ...]]:
    """The claim for the asks of a pod's containers, and which container names what."""
    everyone = tuple(containers)
    staying = [(c, ask) for c in everyone if c.role != "init" for ask in c.asks]
    requests: list[Request] = []
    named: dict[str, list[str]] = {container.name: [] for container in everyone}
    for container, ask in staying:
        request = Request(_free(_name(container, ask, len(staying)), requests), kind_of(ask), ask.count)
        requests.append(request)
        named[container.name].append(request.name)
    for container in everyone:
        if container.role == "init":
            for ask in container.asks:
                named[container.name] += _again(requests, container, ask, kind_of(ask))
    sames = tuple((request.name, same) for request in requests if same and request.number > 1)
    uses = tuple(Use(c.path, c.resources, _written(c, named[c.name], len(requests))) for c in everyone)
    return Plan(tuple(requests), same=sames), uses


def turns(containers: Iterable[ContainerAsk], kind_of: Callable[[Ask], Kind]) -> tuple[Plan, tuple[Use, ...]]:
    """The claim for turns at a GPU: however many of them containers ask for, all name the one GPU that they share."""
    everyone = tuple(containers)
    kinds = tuple(dict.fromkeys(kind_of(ask) for container in everyone for ask in container.asks))
    names = {kind: "gpu" if len(kinds) == 1 else f"gpu-{number}" for number, kind in enumerate(kinds)}
    uses = tuple(
        Use(c.path, c.resources, _written(c, [names[kind_of(ask)] for ask in c.asks], len(kinds))) for c in everyone
    )
    return Plan(tuple(Request(name, kind, 1) for kind, name in names.items())), uses


def _written(container: ContainerAsk, named: Iterable[str], requests: int) -> tuple[str, ...]:
    """What a container names: the whole claim where it uses all of it, or is an init container that uses several."""
    distinct = tuple(dict.fromkeys(named))
    whole = len(distinct) == requests or (container.role == "init" and len(distinct) > 1)
    return () if whole else distinct


def _name(container: ContainerAsk, ask: Ask, asks: int) -> str:
    """``gpu`` where there is only one; else the container's name, with the profile where it asks for several kinds."""
    if asks == 1:
        return "gpu"
    several = len(container.asks) > 1
    suffix = label(ask.profile or ask.resource.rpartition("/")[2]) if several else ""
    return label(f"{container.name}-{suffix}" if suffix else container.name)


def _again(requests: list[Request], container: ContainerAsk, ask: Ask, kind: Kind) -> list[str]:
    """The requests that an init container uses: those of the others as far as they go, then one for what is more."""
    found: list[str] = []
    wanted = ask.count
    # One request that is just as large is better than several.
    alike = [request for request in requests if request.kind == kind]
    for request in sorted(alike, key=lambda one: one.number != wanted):
        if wanted > 0:
            found.append(request.name)
            wanted -= request.number
    if wanted > 0:
        name = label(f"{container.name}-more") if found else "gpu" if not requests else label(container.name)
        name = _free(name, requests)
        requests.append(Request(name, kind, wanted))
        found.append(name)
    return found


def _free(name: str, requests: Iterable[Request]) -> str:
    """The name, or with a number where another request has it: names that are cut to 63 characters may be alike."""
    taken = {request.name for request in requests}
    number, made = 1, name
    while made in taken:
        number += 1
        made = f"{name[:60]}-{number}"
    return made


def label(text: str) -> str:
    """A text as a DNS label: small letters, digits and dashes, at most 63 of them.

    >>> label("mig-1g.5gb+me")
    'mig-1g-5gb-me'
    """
    made = "".join(char if char.isascii() and char.isalnum() else "-" for char in text.lower()).strip("-")
    return made[:63].strip("-") or "gpu"
