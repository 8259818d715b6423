"""A workload's requests to device plugins, in a vendor-neutral form.

A device plugin only counts; node labels specify the GPU model, and the plugin's configuration how it is shared. A
request combines all of it.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import field

from allotment.model.loading.marks import Path
from allotment.model.meta import ObjectKey, Value
from allotment.tools.views import PodView

Vendor: TypeAlias = Literal["nvidia", "amd", "intel"]

#: ``whole``: GPUs by count. ``piece``: a hardware partition (MIG, an AMD partition). ``share``: one of N shares of a
#: GPU (time-slicing, MPS). ``fraction``: an amount of memory or cores. ``monitoring``: access to all GPUs.
Usage: TypeAlias = Literal["whole", "piece", "share", "fraction", "monitoring"]

#: ``init`` ends before the others start; a ``sidecar`` is an init container that keeps running.
Role: TypeAlias = Literal["container", "init", "sidecar"]

#: Suffix of names that the API server completes (``generateName``); invalid in real names.
GENERATED: Final = "*"

Strategy: TypeAlias = Literal["", "time-slicing", "mps"]


class Sharing(Value, frozen=True):
    """The device plugin's sharing of a GPU: the strategy, and the number of pods per GPU (0: unknown).

    ``source``: where this is configured: ``label nvidia.com/gpu.replicas``, ``ConfigMap gpu-operator/time-slicing``.
    """

    strategy: Strategy = ""
    replicas: int = 0
    source: str = field(name="toldBy", default="")


class PluginRequest(Value, frozen=True):
    """A container's request for one resource.

    ``resource``: its name as written; ``profile``: of a piece, as the driver publishes it (``1g.5gb``, ``cpx_nps1``).
    ``memory_mib``, ``memory_percent`` and ``cores`` (percent): a fraction of each GPU, 0 if not requested.
    ``kernel_driver``: of an Intel GPU (``i915``, ``xe``).
    """

    vendor: Vendor
    usage: Usage = field(name="sort")
    resource: str
    count: int
    profile: str = ""
    memory_mib: int = 0
    memory_percent: int = 0
    cores: int = 0
    sharing: Sharing | None = None
    kernel_driver: str = ""


class ContainerRequests(Value, frozen=True):
    """A container with plugin requests. ``resources``: the resource names behind them, as in limits or requests."""

    path: Path
    name: str
    role: Role
    requests: tuple[PluginRequest, ...] = field(name="asks")
    resources: tuple[str, ...]


class Term(NamedTuple):
    """A requirement on a node label: ``operator`` as in node affinity; a nodeSelector entry is ``In`` with one value.

    ``path``: the path of the entry in the document.
    """

    path: Path
    key: str
    operator: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        listed = ", ".join(self.values)
        if self.operator in ("In", "Gt", "Lt") and len(self.values) == 1:
            sign = {"In": "=", "Gt": " > ", "Lt": " < "}[self.operator]
            return f"{self.key}{sign}{listed}"
        return f"{self.key} {self.operator}" + (f" ({listed})" if listed else "")


class WorkloadRequests:
    """A workload with device plugin requests.

    ``selector``: the requirements of nodeSelector. ``affinity``: those of required node affinity, by alternative term;
    ``preferred``: those of preferred node affinity. ``unknown``: unknown resources of known vendors; ``unreadable``:
    amounts that are not numbers. ``bare``: it has no pod template, only container resources.
    """

    __slots__ = ("affinity", "bare", "containers", "preferred", "selector", "unknown", "unreadable", "view")

    def __init__(
        self,
        view: PodView,
        containers: tuple[ContainerRequests, ...],
        selector: tuple[Term, ...] = (),
        affinity: tuple[tuple[Term, ...], ...] = (),
        preferred: tuple[Term, ...] = (),
        unknown: tuple[str, ...] = (),
        unreadable: tuple[str, ...] = (),
        bare: bool = False,
    ) -> None:
        self.view = view
        self.containers = containers
        self.selector = selector
        self.affinity = affinity
        self.preferred = preferred
        self.unknown = unknown
        self.unreadable = unreadable
        self.bare = bare

    @property
    def subject(self) -> str:
        """``Deployment shop/web``, ``PyTorchJob ml/bert (Worker)``; only the kind if it has no name."""
        return subject_of(self.view.kind, self.view.key, self.view.part)

    @property
    def requests(self) -> tuple[PluginRequest, ...]:
        """The requests of all containers, in order."""
        return tuple(request for container in self.containers for request in container.requests)


def subject_of(kind: str, key: ObjectKey, part: str = "") -> str:
    """The display name of a workload: kind, namespace, name, and the part that creates the pods."""
    named = f"{kind} {key}" if key.name else kind
    return f"{named} ({part})" if part else named
