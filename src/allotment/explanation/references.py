"""Broken references of pods: a claim or template that does not exist in the pod's namespace, and the intended one.

The intended object is looked for nearest to the pod first: the other kind with the same name in the pod's namespace, a
similar name there, then the same name in another namespace, if the reader may see that namespace. `allot explain`,
`allot check`, `allot doctor`, `allot plan` and the events of gated pods use this order.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from allotment.engine.diagnosis.published_names import did_you_mean, similar_names
from allotment.engine.diagnosis.reader import EVERYTHING, Reader
from allotment.engine.refusal import CODES, SuggestedChange
from allotment.explanation.input import ExplainInput
from allotment.explanation.obstacles import Obstacle, refused_everywhere
from allotment.explanation.subjects import identity
from allotment.model.core import PodResourceClaim
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.model.trees import to_tree
from allotment.phrases import listed

#: Kinds that an entry of ``spec.resourceClaims`` can refer to, and their fields.
REFERENCE_FIELDS: Final[Mapping[str, str]] = {
    "ResourceClaim": "resourceClaimName", "ResourceClaimTemplate": "resourceClaimTemplateName",
}  # fmt: skip
_NUMBER: Final = re.compile("[0-9]+")
#: Existing names that a message lists.
_MAX_NAMES: Final = 3
#: Names that are compared with an unknown name; of more, only those that start or end like it.
_MAX_COMPARED: Final = 50

#: The existing claims and templates, by kind.
Known = Mapping[str, Collection[ObjectKey]]


class Candidates(NamedTuple):
    """The objects that a broken reference may mean; only the nearest ones are set."""

    other_kind: str = ""
    """The other kind, if the pod's namespace has such an object with the name."""
    similar: tuple[str, ...] = ()
    """Similar names of objects of the same kind in the pod's namespace, best first."""
    namespaces: tuple[str, ...] = ()
    """Other namespaces with an object of the same kind and name."""


def find_candidates(kind: str, key: ObjectKey, known: Known, reader: Reader = EVERYTHING) -> Candidates:
    """The objects that a reference to the missing object ``key`` of a kind may mean."""
    other = next(name for name in REFERENCE_FIELDS if name != kind)
    if key in known[other]:
        return Candidates(other_kind=other)
    names = [name for name in _names_in(key.namespace, known[kind]) if not _has_other_number(key.name, name)]
    similar = similar_names(key.name, _comparable(key.name, names))
    if similar:
        return Candidates(similar=similar)
    namesakes = (k.namespace for k in known[kind] if k.name == key.name and k.namespace != key.namespace)
    return Candidates(namespaces=tuple(sorted(filter(reader.may_see, namesakes))))


def _has_other_number(name: str, other: str) -> bool:
    """Whether two names differ in a number, which a misspelling rarely does.

    >>> _has_other_number("job-14-gpu", "job-16-gpu"), _has_other_number("gpu-a10", "gpu-a100")
    (True, False)
    """
    pairs = zip(_NUMBER.findall(name), _NUMBER.findall(other), strict=False)
    return any(left != right and len(left) == len(right) for left, right in pairs)


def _names_in(namespace: str, keys: Iterable[ObjectKey]) -> list[str]:
    return sorted(key.name for key in keys if key.namespace == namespace)


def _comparable(name: str, names: Sequence[str]) -> Sequence[str]:
    """The names to compare with ``name``; a comparison is expensive, and a namespace may have thousands of claims."""
    if len(names) <= _MAX_COMPARED:
        return names
    return [other for other in names if other[:3] == name[:3] or other[-3:] == name[-3:]][:_MAX_COMPARED]


class OtherNamespaces(NamedTuple):
    """The objects outside the pod's namespace that an answer may name, and change if no pod uses them."""

    objects: ExplainInput
    claims: Mapping[ObjectKey, ResourceClaim]
    """The claims as they are now."""

    def is_used(self, kind: str, key: ObjectKey, namespace: str) -> bool:
        """Whether a claim or template is allocated, reserved, or named by pods outside of ``namespace``."""
        claim = self.claims.get(key) if kind == "ResourceClaim" else None
        if claim is not None and (claim.status.allocation is not None or claim.status.reserved_for):
            return True
        return bool(self.objects.namespaces_naming(kind, key.name) - {namespace})

    def is_placed_by_default(self, object_: str, namespace: str) -> bool:
        """Whether a pod or workload is new, and in the namespace of objects whose file names none."""
        return namespace == self.objects.default_namespace and any(
            not value.metadata.uid and object_ == " ".join(map(str, identity(value)))
            for value in self.objects.workloads
        )


def missing_reference(
    kind: str,
    entries: Sequence[PodResourceClaim],
    number: int,
    key: ObjectKey,
    known: Known,
    pod: tuple[str, str],
    others: OtherNamespaces | None = None,
) -> Obstacle:
    """The obstacle if entry ``number`` refers to an object that does not exist, and changes that may help.

    ``pod`` is the object that contains the pod, and the path there. Without ``others``, the answer is only about the
    pod's namespace.
    """
    reader = others.objects.readers(key.namespace) if others is not None else Reader.of(key.namespace)
    found = find_candidates(kind, key, known, reader)
    changes: tuple[SuggestedChange, ...] = ()
    if others is not None and found.namespaces:
        code = "wrong-namespace"
        summary = (
            f'{kind} "{key.name}" is in namespace {found.namespaces[0]}, but the pod is in {key.namespace}; '
            "a pod can use only objects in its own namespace"
        )
        changes = _to_one_namespace(kind, key, found.namespaces, pod, others)
    else:
        code = "template-missing" if kind == "ResourceClaimTemplate" else "claim-missing"
        summary = f'{kind} "{key.name}" does not exist in namespace {key.namespace}'
        field, path = REFERENCE_FIELDS[kind], f"{pod[1]}spec.resourceClaims"
        if found.other_kind:
            right = REFERENCE_FIELDS[found.other_kind]
            summary += f'; a {found.other_kind} "{key.name}" exists: refer to it with {right}'
            becomes = [to_tree(entry) for entry in entries]
            becomes[number][right] = becomes[number].pop(field)
            changes = (
                SuggestedChange(
                    text=f"refer to it with {right}", object=pod[0], path=path, becomes=becomes, remedy="name"
                ),
            )
        elif found.similar:
            summary += f".{did_you_mean(key.name, found.similar)}"
            changes = tuple(
                SuggestedChange(
                    text=f"use {name}", object=pod[0], path=f"{path}[{number}].{field}", becomes=name, remedy="name"
                )
                for name in found.similar
            )
        elif 0 < len(existing := _names_in(key.namespace, known[kind])) <= _MAX_NAMES:
            summary += f". Existing: {listed(existing)}"
    return Obstacle(refused_everywhere(code, summary, entries[number].name, _kubernetes(kind, key)), changes)


def _to_one_namespace(
    kind: str, key: ObjectKey, namespaces: Sequence[str], pod: tuple[str, str], others: OtherNamespaces
) -> tuple[SuggestedChange, ...]:
    """The change that moves the pod, if its file names no namespace, otherwise the object that it refers to.

    There is none if several namespaces have such an object, or if others use the object to move.
    """
    if len(namespaces) > 1:
        return ()
    target = ObjectKey(namespaces[0], key.name)
    if others.is_placed_by_default(pod[0], key.namespace):
        moved, namespace = pod[0], target.namespace
    elif not others.is_used(kind, target, key.namespace):
        moved, namespace = f"{kind} {target}", key.namespace
    else:
        return ()
    text = f"move {moved.partition(' ')[0]} {moved.rpartition('/')[2]} to namespace {namespace}"
    return (SuggestedChange(text=text, object=moved, path="metadata.namespace", becomes=namespace, remedy="name"),)


def _kubernetes(kind: str, key: ObjectKey) -> str:
    if kind == "ResourceClaim":
        return f'could not find ResourceClaim "{key}" (the pod stays Pending without an event)'
    return CODES["template-missing"].kubernetes
