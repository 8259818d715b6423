"""The kinds of classic DRA, in which drivers allocated devices (Kubernetes 1.26 to 1.31), and their replacements.

KEP-3063 was withdrawn in favor of KEP-4381. Automatic conversion is not possible: parameters were objects of
vendor-specific kinds and became selectors and configuration in the claim.
"""

from __future__ import annotations

from typing import Final

from allotment.model.loading import Document
from allotment.tools.check.objects.field_shapes import version_of
from allotment.tools.views import at, is_dra, mapping
from allotment.vocabulary import drivers

#: The field that identifies a claim of classic DRA in any version.
CLASS_NAME: Final = "resourceClassName"

_REPLACEMENTS: Final = {
    "ResourceClass": "use a DeviceClass with selectors",
    "ResourceClassParameters": "use the selectors and config of a DeviceClass",
    "ResourceClaimParameters": "use the selectors and config of the ResourceClaim",
    "PodSchedulingContext": "remove it: the scheduler allocates devices without negotiating with the driver",
}
_CLAIM_REPLACEMENT: Final = "use devices.requests with a deviceClassName and a CEL selector, in resource.k8s.io/v1"
_PARAMETERS_REPLACEMENT: Final = (
    "write device requirements as a CEL selector in the request, and device settings in the claim's config"
)
_CLASSIC_VERSIONS: Final = frozenset({"v1alpha1", "v1alpha2"})


def is_classic(document: Document) -> bool:
    """Whether a document is an object of classic DRA, or parameters for one."""
    return bool(replacement_for(document))


def replacement_for(document: Document) -> str:
    """The replacement for a kind of classic DRA; empty for other kinds."""
    kind = document.kind
    if not is_dra(document):
        group = document.api_version.partition("/")[0]
        parameters = kind.endswith(("ClaimParameters", "ClassParameters"))
        return _PARAMETERS_REPLACEMENT if parameters and (".resource." in f".{group}" or group in drivers()) else ""
    if kind in _REPLACEMENTS:
        return _REPLACEMENTS[kind]
    if kind not in ("ResourceClaim", "ResourceClaimTemplate"):
        return ""
    spec = mapping(at(document.tree, ("spec",) if kind == "ResourceClaim" else ("spec", "spec")))
    classic = version_of(document) in _CLASSIC_VERSIONS or CLASS_NAME in spec
    return _CLAIM_REPLACEMENT if classic and "devices" not in spec else ""
