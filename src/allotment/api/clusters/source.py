"""Where the objects of a cluster come from, and how a command selects it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import ClassVar, NamedTuple, TypeAlias

from allotment.api.objects.inputs import Inputs
from allotment.api.objects.releases import features_among
from allotment.cluster.inspection.snapshot import SnapshotResource
from allotment.explanation.next_step import Place
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.model.trees import Tree, manifest_of

#: Feature gates: ``{"DRAPartitionableDevices": True}``, or texts such as ``"A=true,B=false"``.
Gates: TypeAlias = Mapping[str, bool] | Sequence[str]


class ClusterOrigin(NamedTuple):
    """The options with which a command selects a cluster.

    ``options``: of ``allot``; ``connection``: of kubectl; ``name``: what reports call it; ``is_repeatable``: False if
    another command could not read it again. ``context``: of the kubeconfig, also if no option names it.
    """

    place: Place = "hardware"
    options: tuple[str, ...] = ()
    connection: tuple[str, ...] = ()
    name: str = ""
    is_repeatable: bool = True
    context: str = ""


class ClusterSource:
    """Where the objects of a cluster come from. This one knows only a release."""

    #: Whether the objects of the cluster are known, and not only its release.
    has_objects: ClassVar[bool] = False

    def __init__(self, kube: str | None, gates: Gates) -> None:
        self.kube = kube
        self.gates = gate_texts(gates)

    def features(self, values: Iterable[Object] = ()) -> Features:
        """Return the features that the objects' server reports, overridden by the stated release and gates."""
        return features_among(self.kube, self.gates, values)

    @property
    def version_options(self) -> tuple[str, ...]:
        """The options of a command for the release and its feature gates."""
        words = ("--kube-version", self.kube) if self.kube else ()
        return (*words, *(word for gates in self.gates for word in ("--feature-gates", gates)))

    @property
    def origin(self) -> ClusterOrigin:
        """The options with which a command selects this cluster."""
        return ClusterOrigin()

    def with_defaults(self, kube: str | None, gates: Sequence[str]) -> ClusterSource:
        """Return the same cluster with a release, unless one is stated, and gates below the stated ones."""
        found = copy(self)
        found.kube, found.gates = self.kube or kube, (*gates, *self.gates)
        return found

    def read(self, kinds: Sequence[SnapshotResource]) -> Inputs:
        """Return the objects of the cluster; a running cluster reads only those of ``kinds``."""
        return Inputs(self.features())

    def trees(self) -> Iterable[Tree]:
        """Return the objects of the cluster as they are written, or with the known fields."""
        return map(manifest_of, self.read(()).cluster)


def gate_texts(gates: Gates) -> tuple[str, ...]:
    """Return feature gates as the texts of ``--feature-gates``."""
    if isinstance(gates, Mapping):
        return tuple(f"{name}={'true' if enabled else 'false'}" for name, enabled in gates.items())
    return (gates,) if isinstance(gates, str) else tuple(gates)
