"""What rules look at: the objects of all files together, what they are checked for, and what is known of the cluster.

Documents are looked at as they are written, in whatever version and shape, also where the API server would refuse them
(`allotment.tools.views`). Those that it would take are there as values, too (``manifests``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, TypeVarTuple

from allotment.engine.diagnosis.published_names import Published, published
from allotment.model.core import Namespace, Node
from allotment.model.decoding import DecodingError, Manifest, decode
from allotment.model.features import Features
from allotment.model.loading import Document, Problem
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
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
class World:
    """A cluster that the files are meant for: what ``--cluster`` or ``--fleet`` brought.

    ``hardware`` when it is made of ``--fleet`` only: there are slices and vendors' classes, and nobody's claims.
    """

    objects: tuple[Object, ...]
    hardware: bool = False

    def of(self, kind: type[Any]) -> tuple[Any, ...]:
        """All objects of a kind."""
        return tuple(value for value in self.objects if isinstance(value, kind))


@dataclass(frozen=True, slots=True)
class Settings:
    """What the files are checked for.

    ``drivers``: the release of a driver where it is not the newest one known, by driver name (``gpu.nvidia.com``:
    ``25.8``). ``driver_gates``: the driver's feature gates that differ from its defaults, by driver and gate.
    """

    features: Features
    drivers: Mapping[str, str] = field(default_factory=dict)
    driver_gates: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)


class Bundle:
    """The documents of all files. ``problems`` are those of files and documents that cannot be read at all."""

    def __init__(
        self,
        documents: Iterable[Document],
        settings: Settings,
        world: World | None = None,
        problems: Iterable[Problem] = (),
        namespace: str = "default",
    ) -> None:
        self.documents = tuple(documents)
        self.settings = settings
        self.world = world
        self.problems = tuple(problems)
        self.namespace = namespace
        self._kept: dict[tuple[Any, ...], Any] = {}
        self._found: dict[Callable[[Bundle], Any], tuple[Any, ...]] = {}

    def kept(self, made: Callable[[Bundle, *_Ts], _T], *given: *_Ts) -> _T:
        """What a function says of the bundle, worked out once however often rules ask."""
        if (made, *given) not in self._kept:
            self._kept[(made, *given)] = made(self, *given)
        found: _T = self._kept[(made, *given)]
        return found

    def found(self, find: Callable[[Bundle], Iterable[_T]]) -> tuple[_T, ...]:
        """What a rule's function finds in the bundle, looked for once: the proof asks for it, too."""
        if find not in self._found:
            self._found[find] = tuple(find(self))
        return self._found[find]

    @property
    def features(self) -> Features:
        """The Kubernetes release that is meant, with its gates."""
        return self.settings.features

    # --- as values -----------------------------------------------------------------------------------------------

    @cached_property
    def decoded(self) -> Mapping[Document, Manifest | DecodingError]:
        """Each document as a value, or why it is none (strictly, as kubectl has it checked)."""
        return {document: _decoded(document) for document in self.documents}

    @cached_property
    def manifests(self) -> Mapping[Document, Manifest]:
        """The documents that hold an object."""
        return {document: value for document, value in self.decoded.items() if isinstance(value, Manifest)}

    # --- as written ----------------------------------------------------------------------------------------------

    @cached_property
    def claims(self) -> tuple[ClaimView, ...]:
        """The claims and claim templates."""
        return tuple(view for d in self.documents if (view := claim_view(d, self.namespace)) is not None)

    @cached_property
    def classes(self) -> tuple[ClassView, ...]:
        """The DeviceClasses."""
        return tuple(view for d in self.documents if (view := class_view(d)) is not None)

    @cached_property
    def pods(self) -> tuple[PodView, ...]:
        """The pods, and what workloads of any kind make pods of."""
        return tuple(view for d in self.documents for view in pod_views(d, self.namespace))

    @cached_property
    def selectors(self) -> tuple[SelectorView, ...]:
        """Every selector: of requests, of classes, and of fragments that are no object."""
        found: list[SelectorView] = []
        for document in self.documents:
            found.extend(selectors_of(document, self.namespace))
            found.extend(fragment_views(document))
        return tuple(found)

    # --- what is known of the cluster -----------------------------------------------------------------------------

    @cached_property
    def slices(self) -> tuple[ResourceSlice, ...] | None:
        """The slices of the cluster that was given; None when none was."""
        return None if self.world is None else self.world.of(ResourceSlice)

    @cached_property
    def published(self) -> Published | None:
        """The names that those slices publish; None without a cluster."""
        return None if self.slices is None else published(self.slices)

    @cached_property
    def known_classes(self) -> Mapping[str, DeviceClass]:
        """The classes that decode, of the given cluster and of the files; those of the files go first."""
        found = {c.metadata.name: c for c in (self.world.of(DeviceClass) if self.world else ())}
        found.update(
            {m.value.metadata.name: m.value for m in self.manifests.values() if isinstance(m.value, DeviceClass)}
        )
        return found

    @cached_property
    def namespaces(self) -> Mapping[str, Namespace]:
        """The Namespace objects that are known."""
        found = {n.metadata.name: n for n in (self.world.of(Namespace) if self.world else ())}
        found.update(
            {m.value.metadata.name: m.value for m in self.manifests.values() if isinstance(m.value, Namespace)}
        )
        return found

    @cached_property
    def claims_by_key(self) -> Mapping[tuple[str, ObjectKey], ClaimView]:
        """Claims and templates of the files by kind and key."""
        return {(view.kind, view.key): view for view in self.claims}

    @cached_property
    def cluster_claims(self) -> Mapping[ObjectKey, ResourceClaim]:
        """The claims of the given cluster."""
        return {c.key: c for c in (self.world.of(ResourceClaim) if self.world else ())}

    @cached_property
    def cluster_templates(self) -> Mapping[ObjectKey, ResourceClaimTemplate]:
        """The claim templates of the given cluster."""
        return {c.key: c for c in (self.world.of(ResourceClaimTemplate) if self.world else ())}

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of the given cluster."""
        return self.world.of(Node) if self.world else ()


def _decoded(document: Document) -> Manifest | DecodingError:
    try:
        return decode(document)
    except DecodingError as error:
        return error
