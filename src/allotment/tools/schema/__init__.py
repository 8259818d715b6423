"""A JSON Schema (draft-07, as editors read it) of claims, templates and classes, with the words of known drivers.

What Kubernetes fixes is closed: fields, allocation modes, exactly one of ``exactly`` and ``firstAvailable``. What the
world decides is open: names of classes, drivers and attributes are suggested, and others are taken as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from allotment.model.features import RELEASES, Features
from allotment.model.fields import GROUP, introduced_in, kinds_of, versions_of
from allotment.model.trees import Tree
from allotment.tools.schema.definitions import Definitions

#: What DRA is written in; pods and what makes them come when asked for.
DEFAULT_KINDS: Final = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass")
DRAFT: Final = "http://json-schema.org/draft-07/schema#"


class UnknownKindError(Exception):
    """Raised for a kind that Kubernetes has not. ``known`` are those of the API groups that manifests use."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind
        usual = {*kinds_of(f"{GROUP}/v1"), "Pod", "Deployment", "StatefulSet", "DaemonSet", "Job"}
        self.known = tuple(sorted(usual - {kind}))  # a release may be older than a kind


def schema(features: Features, kinds: Iterable[str] = DEFAULT_KINDS, identifier: str = "") -> Tree:
    """The schema of those kinds; documents of other kinds, versions and groups are taken as they are.

    Raises UnknownKindError.

    >>> sorted(schema(Features("1.36"), ["DeviceClass"])["definitions"])[:3]
    ['CELDeviceSelector', 'ComputeDomainChannelConfig of compute-domain.nvidia.com', ...]
    """
    definitions = Definitions(features)
    rules = []
    versions = {kind: _version(kind, features.kube) for kind in kinds}
    for kind, version in versions.items():
        written = {"apiVersion": {"const": version}, "kind": {"const": kind}}
        rules.append(
            {
                "if": {"properties": written, "required": ["apiVersion", "kind"]},
                "then": {"$ref": definitions.of_kind(version, kind)},
            }
        )
    return {
        "$schema": DRAFT,
        **({"$id": identifier} if identifier else {}),
        "title": "Kubernetes Dynamic Resource Allocation",
        "description": f"{', '.join(versions)}, made by Allotment.",
        "type": "object",
        "properties": {
            "apiVersion": _open_to(versions.values(), "Group and version."),
            "kind": _open_to(versions, "Kind of the object."),
        },
        "allOf": [*rules, *_never_served(versions)],
        "definitions": dict(sorted(definitions.built.items())),
    }


def _never_served(versions: Mapping[str, str]) -> list[Tree]:
    """Versions of ``resource.k8s.io`` that no supported Kubernetes serves: what is written in them is refused."""
    of_group = [kind for kind, version in versions.items() if version.startswith(f"{GROUP}/")]
    if not of_group:
        return []
    group = {"apiVersion": {"pattern": f"^{GROUP}/".replace(".", r"\.")}, "kind": {"enum": of_group}}
    served = {"enum": [f"{GROUP}/{version}" for version in ("v1", "v1beta2", "v1beta1")]}
    return [
        {
            "if": {"properties": group, "required": ["apiVersion", "kind"]},
            "then": {"properties": {"apiVersion": served}},
        }
    ]


def _open_to(names: Iterable[str], description: str) -> Tree:
    """A string of which some values are known."""
    return {"description": description, "anyOf": [{"enum": list(dict.fromkeys(names))}, {"type": "string"}]}


def _version(kind: str, kube: str) -> str:
    """The API version that manifests of a kind are written in for a release. Raises UnknownKindError."""
    stable = f"{GROUP}/v1"
    for version in (stable,) if kind in kinds_of(stable) else versions_of(kind):
        if "alpha" not in version and "beta" not in version and _is_in(version, kind, kube):
            return version
    raise UnknownKindError(kind)


def _is_in(version: str, kind: str, kube: str) -> bool:
    first = introduced_in(version, kind)
    return not first or RELEASES.index(first) <= RELEASES.index(kube)
