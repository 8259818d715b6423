"""What a workload asks of a device plugin, as values: the same words for every vendor's resource names.

A device plugin knows counts only; which GPU it is stands in labels of nodes, and how much of one in the plugin's own
settings. All of it together is one ask.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from allotment.model.loading.marks import Path
from allotment.model.meta import ObjectKey, Value
from allotment.tools.views import PodView

Vendor: TypeAlias = Literal["nvidia", "amd", "intel"]

#: ``whole``: GPUs by count. ``piece``: a part that the hardware cuts off (MIG, an AMD partition). ``share``: one of N
#: turns at a GPU (time-slicing, MPS). ``fraction``: an amount of memory or cores. ``monitoring``: all, to look at.
Sort: TypeAlias = Literal["whole", "piece", "share", "fraction", "monitoring"]

#: ``init`` ends before the others start; a ``sidecar`` is an init container that stays.
Role: TypeAlias = Literal["container", "init", "sidecar"]

#: How a name ends that the API server completes (``generateName``); no name has it.
GENERATED: Final = "*"

Strategy: TypeAlias = Literal["", "time-slicing", "mps"]


class Sharing(Value, frozen=True):
    """How the device plugin lets pods share a GPU: by which means, and how many (0: nobody says).

    ``told_by`` says where that stands: ``label nvidia.com/gpu.replicas``, ``ConfigMap gpu-operator/time-slicing``.
    """

    strategy: Strategy = ""
    replicas: int = 0
    told_by: str = ""


class Ask(Value, frozen=True):
    """What one container asks for, of one resource.

    ``resource`` is its name as written, ``count`` how many. ``profile``: of a piece, as the driver publishes it
    (``1g.5gb``, ``cpx_nps1``). ``memory_mib``, ``memory_percent`` and ``cores`` (percent) are a fraction of each GPU,
    and 0 where nothing is asked. ``kernel_driver``: of an Intel GPU (``i915``, ``xe``).
    """

    vendor: Vendor
    sort: Sort
    resource: str
    count: int
    profile: str = ""
    memory_mib: int = 0
    memory_percent: int = 0
    cores: int = 0
    sharing: Sharing | None = None
    kernel_driver: str = ""


class ContainerAsk(Value, frozen=True):
    """A container that asks. ``resources``: all the names that make up its asks, as in its limits or requests."""

    path: Path
    name: str
    role: Role
    asks: tuple[Ask, ...]
    resources: tuple[str, ...]


class Term(NamedTuple):
    """One requirement on a label of the node: ``operator`` as in node affinity; a nodeSelector's entry is ``In`` one.

    ``path`` is that of the entry, in the document.
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


class WorkloadAsk:
    """A workload that asks a device plugin for something.

    ``selector``: the requirements of nodeSelector. ``affinity``: those of required node affinity, by term (of which
    any is enough); ``preferred``: whether it prefers nodes by labels, too. ``unknown``: resources that look like a
    vendor's, and are none that is known here; ``unreadable``: amounts that are no numbers. ``bare``: no pod is written,
    only what a container of it is to have.
    """

    __slots__ = ("affinity", "bare", "containers", "preferred", "selector", "unknown", "unreadable", "view")

    def __init__(
        self,
        view: PodView,
        containers: tuple[ContainerAsk, ...],
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
        """``Deployment shop/web``, ``PyTorchJob ml/bert (Worker)``; of a piece of a manifest only ``Pod``."""
        return subject_of(self.view.kind, self.view.key, self.view.part)

    @property
    def asks(self) -> tuple[Ask, ...]:
        """The asks of all containers, in their order."""
        return tuple(ask for container in self.containers for ask in container.asks)


def subject_of(kind: str, key: ObjectKey, part: str = "") -> str:
    """How a workload is called: with its namespace, and with the part of it that makes the pods."""
    named = f"{kind} {key}" if key.name else kind
    return f"{named} ({part})" if part else named
