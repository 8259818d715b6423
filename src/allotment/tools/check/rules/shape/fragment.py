"""S114: documents that are no object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from allotment.model.fields import versions_of
from allotment.model.loading import Document
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Found, Rule
from allotment.tools.views import mapping
from allotment.vocabulary import drivers, vocabulary

_POD: Final = frozenset({"containers", "resourceClaims", "initContainers", "nodeSelector", "nodeName"})
#: Keys that give a document away, and what it is a piece of.
_PIECES: Final = (
    (_POD, "part of a pod's spec"),
    (frozenset({"selectors", "deviceClassName"}), "part of a request or of a DeviceClass"),
    (frozenset({"exactly", "firstAvailable"}), "a request of a claim"),
    (frozenset({"requests", "constraints", "devices"}), "part of a claim or of a ResourceSlice"),
    (frozenset({"attributes", "capacity"}), "a device of a ResourceSlice"),
    (frozenset({"mig-configs"}), "the configuration of nvidia-mig-parted"),
)
#: Top-level keys of the values of NVIDIA's gpu-operator chart; one alone says little.
_OPERATOR: Final = frozenset(
    {"devicePlugin", "mig", "toolkit", "driver", "dcgmExporter", "gfd", "migManager", "operator", "validator"}
)


def _find(bundle: Bundle) -> Iterator[Found]:
    """Mappings that lack a kind, and those that lack a version and are of no known kind."""
    for document in bundle.documents:
        kind, version = document.kind, document.api_version
        if kind and (version or versions_of(kind)):
            continue
        first = next(iter(document.tree), None)
        lacks = "apiVersion and kind" if not kind and not version else "apiVersion" if kind else "kind"
        yield Found(
            document,
            () if first is None else (first,),
            f"no Kubernetes object, for want of {lacks}; this looks like {_seems(document)}",
            help="only what stands here is checked, not what it is part of",
            key=first is not None,
        )


def _seems(document: Document) -> str:
    keys = document.tree.keys()
    if _POD & mapping(document.tree.get("spec")).keys():
        return "part of a pod or of a pod's template"
    for names, what in _PIECES:
        if names & keys:
            return what
    if {"limits", "requests", "claims"} & mapping(document.tree.get("resources")).keys():
        return "part of a container"
    for driver in drivers():
        words = vocabulary(driver)
        if words is not None and keys & _top_level(words.helm):
            return f"the values of a Helm chart, that of driver {driver}"
    if len(_OPERATOR & keys) > 1:
        return "the values of a Helm chart, that of NVIDIA's gpu-operator"
    return "the values of a Helm chart, or some other configuration"


def _top_level(helm: dict[str, str]) -> set[str]:
    """The keys by which a chart's values are known: those that few other charts have."""
    return {key for key in helm if "." not in key and key[:1].islower() and any(letter.isupper() for letter in key[1:])}


_BAD = """\
containers:
- name: app
  image: my-gpu-app
  resources:
    claims:
    - name: gpu
resourceClaims:
- name: gpu
  resourceClaimTemplateName: one-gpu
"""

_GOOD = """\
apiVersion: v1
kind: Pod
metadata:
  name: app
spec:
  containers:
  - name: app
    image: my-gpu-app
    resources:
      claims:
      - name: gpu
  resourceClaims:
  - name: gpu
    resourceClaimTemplateName: one-gpu
"""

RULE = Rule(
    code="S114",
    name="fragment",
    family="shape",
    level="note",
    summary="a document that is no Kubernetes object",
    why=(
        "Every object starts with apiVersion and kind; kubectl refuses a document without. Articles print pieces of"
        " objects, and folders hold Helm values and other configuration beside them. What can be told from a piece is"
        " checked: selectors, resources, attributes, a chart's keys. What it lacks is not."
    ),
    bad=_BAD,
    good=_GOOD,
    find=_find,
    see="https://kubernetes.io/docs/concepts/overview/working-with-objects/#required-fields",
)
