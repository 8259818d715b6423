"""S114: documents that are no object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from allotment.model.fields import versions_of
from allotment.model.loading import Document
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import RuleMatch, Rule
from allotment.tools.views import mapping
from allotment.vocabulary import drivers, vocabulary

_POD: Final = frozenset({"containers", "resourceClaims", "initContainers", "nodeSelector", "nodeName"})
#: Keys that give a document away, and what it is a piece of.
_FRAGMENTS: Final = (
    (_POD, "part of a pod's spec"),
    (frozenset({"selectors", "deviceClassName"}), "part of a request or of a DeviceClass"),
    (frozenset({"exactly", "firstAvailable"}), "a request of a claim"),
    (frozenset({"requests", "constraints", "devices"}), "part of a claim or of a ResourceSlice"),
    (frozenset({"attributes", "capacity"}), "a device of a ResourceSlice"),
    (frozenset({"mig-configs"}), "the configuration of nvidia-mig-parted"),
)
#: Top-level keys of the values of NVIDIA's gpu-operator chart; one alone says little.
_OPERATOR_VALUES: Final = frozenset(
    {"devicePlugin", "mig", "toolkit", "driver", "dcgmExporter", "gfd", "migManager", "operator", "validator"}
)


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """Mappings that lack a kind, and those that lack a version and are of no known kind."""
    for document in bundle.documents:
        kind, version = document.kind, document.api_version
        if kind and (version or versions_of(kind)):
            continue
        first = next(iter(document.tree), None)
        missing = "apiVersion and kind" if not kind and not version else "apiVersion" if kind else "kind"
        yield RuleMatch(
            document,
            () if first is None else (first,),
            f"no Kubernetes object, for want of {missing}; this looks like {_description(document)}",
            help="only what stands here is checked, not what it is part of",
            at_key=first is not None,
        )


def _description(document: Document) -> str:
    keys = document.tree.keys()
    if _POD & mapping(document.tree.get("spec")).keys():
        return "part of a pod or of a pod's template"
    for names, what in _FRAGMENTS:
        if names & keys:
            return what
    if {"limits", "requests", "claims"} & mapping(document.tree.get("resources")).keys():
        return "part of a container"
    for driver in drivers():
        vocab = vocabulary(driver)
        if vocab is not None and keys & _distinctive_keys(vocab.helm):
            return f"the values of a Helm chart, that of driver {driver}"
    if len(_OPERATOR_VALUES & keys) > 1:
        return "the values of a Helm chart, that of NVIDIA's gpu-operator"
    return "the values of a Helm chart, or some other configuration"


def _distinctive_keys(helm: dict[str, str]) -> set[str]:
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
