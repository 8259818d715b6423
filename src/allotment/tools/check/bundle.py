"""The input of rules: the objects of all files, the settings of the check, and the known state of the cluster.

Documents are seen as written, in any version and shape, including those that the API server would reject
(`allotment.tools.views`). Those that it would accept are also available as decoded values (``manifests``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, TypeVarTuple

from allotment.engine.diagnosis.published_names import PublishedNames, published_names
from allotment.explanation.input import AdmittedObjects
from allotment.model.core import Namespace, Node
from allotment.model.decoding import DecodingError, Manifest, decode
from allotment.model.features import Features
from allotment.model.loading import Document, InputProblem
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from allotment.time_limits import check_time
from allotment.tools.views import (
    ClaimView,
    ClassView,
    PodView,
    SelectorView,
    claim_view,
    class_view,
    fragment_views,
    pod_views,
    selectors_of,
)

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


@dataclass(frozen=True, slots=True)
class TargetCluster:
    """The cluster that the files are meant for, from ``--cluster`` or ``--fleet``.

    ``fleet_only`` if it only consists of ``--fleet`` machines: it has slices and vendors' classes, but no claims.
    """

    objects: tuple[Object, ...]
    fleet_only: bool = False

    def of(self, kind: type[Any]) -> tuple[Any, ...]:
        """All objects of a kind."""
        return tuple(value for value in self.objects if isinstance(value, kind))


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """The versions and feature gates that the files are checked for.

    ``drivers``: the releases of drivers, by driver name, that are not the newest known ones (``gpu.nvidia.com``:
    ``25.8``). ``driver_gates``: the feature gates that differ from the drivers' defaults, by driver and gate.
    """

    features: Features
    drivers: Mapping[str, str] = field(default_factory=dict)
    driver_gates: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)


class Bundle:
    """The documents of all files. ``problems`` are those of files and documents that cannot be parsed.

    ``admitted``: that of an earlier bundle for the same cluster and settings, whose objects are not validated again.
    """

    def __init__(
        self,
        documents: Iterable[Document],
        settings: CheckSettings,
        cluster: TargetCluster | None = None,
        problems: Iterable[InputProblem] = (),
        namespace: str = "default",
        admitted: AdmittedObjects | None = None,
    ) -> None:
        self.documents = tuple(documents)
        self.settings = settings
        self.cluster = cluster
        self.problems = tuple(problems)
        self.namespace = namespace
        self.admitted = admitted or AdmittedObjects(settings.features)
        self._kept: dict[tuple[Any, ...], Any] = {}
        self._found: dict[Callable[[Bundle], Any], tuple[Any, ...]] = {}

    def cached(self, compute: Callable[[Bundle, *_Ts], _T], *args: *_Ts) -> _T:
        """The result of ``compute(self, *args)``, computed once per bundle."""
        if (compute, *args) not in self._kept:
            self._kept[(compute, *args)] = compute(self, *args)
        result: _T = self._kept[(compute, *args)]
        return result

    def results_of(self, find: Callable[[Bundle], Iterable[_T]]) -> tuple[_T, ...]:
        """The matches of a rule's function, computed once: the simulation needs them, too."""
        check_time()
        if find not in self._found:
            self._found[find] = tuple(find(self))
        return self._found[find]

    @property
    def features(self) -> Features:
        """The Kubernetes release and its feature gates."""
        return self.settings.features

    # --- as values -----------------------------------------------------------------------------------------------

    @cached_property
    def decoded(self) -> Mapping[Document, Manifest | DecodingError]:
        """Each document's value in the checked release, or the error of decoding it (strictly, as kubectl requests)."""
        return {document: _decode(document, self.features.kube) for document in self.documents}

    @cached_property
    def manifests(self) -> Mapping[Document, Manifest]:
        """The documents that decode to an object."""
        return {document: value for document, value in self.decoded.items() if isinstance(value, Manifest)}

    # --- as written ----------------------------------------------------------------------------------------------

    @cached_property
    def claims(self) -> tuple[ClaimView, ...]:
        return tuple(view for d in self.documents if (view := claim_view(d, self.namespace)) is not None)

    @cached_property
    def classes(self) -> tuple[ClassView, ...]:
        return tuple(view for d in self.documents if (view := class_view(d)) is not None)

    @cached_property
    def pods(self) -> tuple[PodView, ...]:
        """The pods, and the pod templates of workloads of any kind."""
        return tuple(view for d in self.documents for view in pod_views(d, self.namespace))

    @cached_property
    def selectors(self) -> tuple[SelectorView, ...]:
        """All selectors: of requests, of classes, and of fragments."""
        views: list[SelectorView] = []
        for document in self.documents:
            views.extend(selectors_of(document, self.namespace))
            views.extend(fragment_views(document))
        return tuple(views)

    # --- the given cluster ----------------------------------------------------------------------------------------

    @cached_property
    def slices(self) -> tuple[ResourceSlice, ...] | None:
        """The slices of the given cluster; None without a cluster."""
        return None if self.cluster is None else self.cluster.of(ResourceSlice)

    @cached_property
    def published(self) -> PublishedNames | None:
        """The names that these slices publish; None without a cluster."""
        return None if self.slices is None else published_names(self.slices)

    @cached_property
    def known_classes(self) -> Mapping[str, DeviceClass]:
        """The decodable classes of the files and of the given cluster; those of the files take precedence."""
        classes = {c.metadata.name: c for c in (self.cluster.of(DeviceClass) if self.cluster else ())}
        classes.update(
            {m.value.metadata.name: m.value for m in self.manifests.values() if isinstance(m.value, DeviceClass)}
        )
        return classes

    @cached_property
    def namespaces(self) -> Mapping[str, Namespace]:
        """The Namespace objects of the files and of the given cluster, by name."""
        namespaces = {n.metadata.name: n for n in (self.cluster.of(Namespace) if self.cluster else ())}
        namespaces.update(
            {m.value.metadata.name: m.value for m in self.manifests.values() if isinstance(m.value, Namespace)}
        )
        return namespaces

    @cached_property
    def claims_by_key(self) -> Mapping[tuple[str, ObjectKey], ClaimView]:
        """The claims and templates of the files by kind and key."""
        return {(view.kind, view.key): view for view in self.claims}

    @cached_property
    def cluster_claims(self) -> Mapping[ObjectKey, ResourceClaim]:
        return {c.key: c for c in (self.cluster.of(ResourceClaim) if self.cluster else ())}

    @cached_property
    def cluster_templates(self) -> Mapping[ObjectKey, ResourceClaimTemplate]:
        return {c.key: c for c in (self.cluster.of(ResourceClaimTemplate) if self.cluster else ())}

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        return self.cluster.of(Node) if self.cluster else ()


def _decode(document: Document, release: str) -> Manifest | DecodingError:
    check_time()
    try:
        return decode(document, release=release)
    except DecodingError as error:
        return error
