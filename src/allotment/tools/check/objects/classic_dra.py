"""Classic DRA, the API of Kubernetes 1.26 to 1.31 in which drivers allocated: its kinds, and what took their place.

KEP-3063 was withdrawn for KEP-4381. Nothing can be converted by itself: parameters were objects of the vendor's own
kinds, and became selectors and configuration inside of the claim.
"""

from __future__ import annotations

from typing import Final

from allotment.model.loading import Document
from allotment.tools.check.objects.field_shapes import version_of
from allotment.tools.views import at, is_dra, mapping
from allotment.vocabulary import drivers

#: The field that a claim of classic DRA starts with, whatever version stands above it.
CLASS_NAME: Final = "resourceClassName"

_KINDS: Final = {
    "ResourceClass": "a DeviceClass says the same with selectors",
    "ResourceClassParameters": "a DeviceClass has selectors and config instead",
    "ResourceClaimParameters": "a ResourceClaim has selectors and config of its own",
    "PodSchedulingContext": "the scheduler allocates by itself, nobody negotiates any more",
}
_CLAIMS: Final = "write devices.requests with a deviceClassName and a CEL selector, in resource.k8s.io/v1"
_PARAMETERS: Final = (
    "what devices must be like is a CEL selector of the request now, and how to set them up its claim's config"
)
_CLASSIC_VERSIONS: Final = frozenset({"v1alpha1", "v1alpha2"})


def is_classic(document: Document) -> bool:
    """Whether a document is an object of classic DRA, or parameters for one."""
    return bool(replaced_by(document))


def replaced_by(document: Document) -> str:
    """What took the place of a kind of classic DRA; empty for other kinds."""
    kind = document.kind
    if not is_dra(document):
        group = document.api_version.partition("/")[0]
        parameters = kind.endswith(("ClaimParameters", "ClassParameters"))
        return _PARAMETERS if parameters and (".resource." in f".{group}" or group in drivers()) else ""
    if kind in _KINDS:
        return _KINDS[kind]
    if kind not in ("ResourceClaim", "ResourceClaimTemplate"):
        return ""
    spec = mapping(at(document.tree, ("spec",) if kind == "ResourceClaim" else ("spec", "spec")))
    classic = version_of(document) in _CLASSIC_VERSIONS or CLASS_NAME in spec
    return _CLAIMS if classic and "devices" not in spec else ""
