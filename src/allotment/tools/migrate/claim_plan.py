"""Plans the claim that replaces a pod's extended resources: its requests, and the requests that each container names.

All plugin requests of a pod become requests of one claim. A regular container has its own requests. An init container
ends before the others start, and the device plugin lets it use the devices that they get later (a pod needs the maximum
of both, not the sum); so it names their requests and has its own only for the excess.

A container can name one request of a claim, or the whole claim, but not two requests: ``resources.claims`` is a list
with one entry per claim name, and the API server rejects a second entry (listMapKey in core/v1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from allotment.model.loading.marks import Path
from allotment.tools.migrate.node_affinity import Condition
from allotment.tools.migrate.plugin_requests import ContainerRequests, PluginRequest


class RequestKind(NamedTuple):
    """The content of a claim request, without its name and count.

    ``capacity``: the amounts that it consumes of each shareable device. ``admin``: admin access to all devices
    (KEP-5018).
    """

    class_name: str
    conditions: tuple[Condition, ...] = ()
    capacity: tuple[tuple[str, str], ...] = ()
    admin: bool = False


class ClaimRequest(NamedTuple):
    """One request of the claim."""

    name: str
    kind: RequestKind
    number: int


class DriverConfig(NamedTuple):
    """Driver parameters for all requests of the claim; ``why`` is the comment above them."""

    driver: str
    parameters: Mapping[str, Any]
    why: str


class ClaimPlan(NamedTuple):
    """A claim's spec. ``same``: pairs of a request and the attribute that all its devices must share."""

    requests: tuple[ClaimRequest, ...]
    configs: tuple[DriverConfig, ...] = ()
    same: tuple[tuple[str, str], ...] = ()

    @property
    def identity(self) -> tuple[object, ...]:
        """A key that is equal for plans that result in the same claim."""
        return (self.requests, tuple((c.driver, str(c.parameters)) for c in self.configs), self.same)


class ContainerUse(NamedTuple):
    """A container and the requests that it names; empty if it names the whole claim.

    More than one cannot be written to a manifest; ``actions.is_unwritable`` tests for it.
    """

    path: Path
    resources: tuple[str, ...]
    requests: tuple[str, ...]


def plan_claim(
    containers: Iterable[ContainerRequests], kind_of: Callable[[PluginRequest], RequestKind], same: str = ""
) -> tuple[ClaimPlan, tuple[ContainerUse, ...]]:
    """The claim for the requests of a pod's containers, and the requests that each container names."""
    listed = tuple(containers)
    staying = [(c, plugin_request) for c in listed if c.role != "init" for plugin_request in c.requests]
    requests: list[ClaimRequest] = []
    named: dict[str, list[str]] = {container.name: [] for container in listed}
    for container, plugin_request in staying:
        request = ClaimRequest(
            _free(_name(container, plugin_request, len(staying)), requests),
            kind_of(plugin_request),
            plugin_request.count,
        )
        requests.append(request)
        named[container.name].append(request.name)
    for container in listed:
        if container.role == "init":
            for plugin_request in container.requests:
                named[container.name] += _init_requests(requests, container, plugin_request, kind_of(plugin_request))
    sames = tuple((request.name, same) for request in requests if same and request.number > 1)
    uses = tuple(ContainerUse(c.path, c.resources, _written(c, named[c.name], len(requests))) for c in listed)
    return ClaimPlan(tuple(requests), same=sames), uses


def plan_shared_claim(
    containers: Iterable[ContainerRequests], kind_of: Callable[[PluginRequest], RequestKind]
) -> tuple[ClaimPlan, tuple[ContainerUse, ...]]:
    """The claim for shares of a GPU: containers name one shared GPU, for any number of requested shares."""
    listed = tuple(containers)
    kinds = tuple(
        dict.fromkeys(kind_of(plugin_request) for container in listed for plugin_request in container.requests)
    )
    names = {kind: "gpu" if len(kinds) == 1 else f"gpu-{number}" for number, kind in enumerate(kinds)}
    uses = tuple(
        ContainerUse(
            c.path,
            c.resources,
            _written(c, [names[kind_of(plugin_request)] for plugin_request in c.requests], len(kinds)),
        )
        for c in listed
    )
    return ClaimPlan(tuple(ClaimRequest(name, kind, 1) for kind, name in names.items())), uses


def _written(container: ContainerRequests, named: Iterable[str], requests: int) -> tuple[str, ...]:
    """The requests that a container names; empty for the whole claim.

    A container names the whole claim if it uses all of it, or is an init container that uses several requests.
    """
    distinct = tuple(dict.fromkeys(named))
    whole = len(distinct) == requests or (container.role == "init" and len(distinct) > 1)
    return () if whole else distinct


def _name(container: ContainerRequests, plugin_request: PluginRequest, total: int) -> str:
    """``gpu`` for a single request; else the container's name, with the profile if it has several requests."""
    if total == 1:
        return "gpu"
    several = len(container.requests) > 1
    suffix = label(plugin_request.profile or plugin_request.resource.rpartition("/")[2]) if several else ""
    return label(f"{container.name}-{suffix}" if suffix else container.name)


def _init_requests(
    requests: list[ClaimRequest], container: ContainerRequests, plugin_request: PluginRequest, kind: RequestKind
) -> list[str]:
    """The requests that an init container uses: those of the other containers, then a new one for the excess."""
    found: list[str] = []
    wanted = plugin_request.count
    # One request that is just as large is better than several.
    matching = [request for request in requests if request.kind == kind]
    for request in sorted(matching, key=lambda request: request.number != wanted):
        if wanted > 0:
            found.append(request.name)
            wanted -= request.number
    if wanted > 0:
        name = label(f"{container.name}-more") if found else "gpu" if not requests else label(container.name)
        name = _free(name, requests)
        requests.append(ClaimRequest(name, kind, wanted))
        found.append(name)
    return found


def _free(name: str, requests: Iterable[ClaimRequest]) -> str:
    """The name, with a number if another request has it: names truncated to 63 characters may be equal."""
    taken = {request.name for request in requests}
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name[:60]}-{number}"
    return free


def label(text: str) -> str:
    """A text as a DNS label: at most 63 lower-case letters, digits and hyphens.

    >>> label("mig-1g.5gb+me")
    'mig-1g-5gb-me'
    """
    cleaned = "".join(char if char.isascii() and char.isalnum() else "-" for char in text.lower()).strip("-")
    return cleaned[:63].strip("-") or "gpu"
