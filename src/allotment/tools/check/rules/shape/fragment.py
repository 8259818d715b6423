"""S114: documents that are not Kubernetes objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from allotment.model.fields import versions_of
from allotment.model.loading import Document
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Rule, RuleMatch
from allotment.tools.views import mapping
from allotment.vocabulary import drivers, vocabulary

_POD: Final = frozenset({"containers", "resourceClaims", "initContainers", "nodeSelector", "nodeName"})
#: Keys that identify a fragment, and what it is a part of.
_FRAGMENTS: Final = (
    (_POD, "part of a pod's spec"),
    (frozenset({"selectors", "deviceClassName"}), "part of a request or DeviceClass"),
    (frozenset({"exactly", "firstAvailable"}), "a request in a claim"),
    (frozenset({"requests", "constraints", "devices"}), "part of a claim or ResourceSlice"),
    (frozenset({"attributes", "capacity"}), "a device in a ResourceSlice"),
    (frozenset({"mig-configs"}), "a configuration for nvidia-mig-parted"),
)
#: Top-level Helm values of NVIDIA's gpu-operator; a single one is not conclusive.
_OPERATOR_VALUES: Final = frozenset(
    {"devicePlugin", "mig", "toolkit", "driver", "dcgmExporter", "gfd", "migManager", "operator", "validator"}
)


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """Documents without a kind, and those without a version whose kind is unknown."""
    for document in bundle.documents:
        kind, version = document.kind, document.api_version
        if kind and (version or versions_of(kind)):
            continue
        first = next(iter(document.tree), None)
        missing = "apiVersion and no kind" if not kind and not version else "apiVersion" if kind else "kind"
        yield RuleMatch(
            document,
            () if first is None else (first,),
            f"not a Kubernetes object: it has no {missing}; it looks like {_description(document)}",
            help="only the fields of this fragment are checked",
            at_key=first is not None,
        )


def _description(document: Document) -> str:
    keys = document.tree.keys()
    if _POD & mapping(document.tree.get("spec")).keys():
        return "part of a pod or pod template"
    for names, description in _FRAGMENTS:
        if names & keys:
            return description
    if {"limits", "requests", "claims"} & mapping(document.tree.get("resources")).keys():
        return "part of a container"
    for driver in drivers():
        vocab = vocabulary(driver)
        if vocab is not None and keys & _distinctive_keys(vocab.helm):
            return f"Helm values for the chart of driver {driver}"
    if len(_OPERATOR_VALUES & keys) > 1:
        return "Helm values for NVIDIA's gpu-operator"
    return "Helm values or other configuration"


def _distinctive_keys(helm: dict[str, str]) -> set[str]:
    """The top-level keys of a chart that few other charts have."""
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
    summary="the document is not a Kubernetes object",
    why=(
        "Every object starts with apiVersion and kind; kubectl rejects a document without them. Tutorials and blog "
        "posts often show only fragments of objects, and directories contain Helm values and other configuration next "
        "to manifests. The fields that a fragment contains (selectors, resources, attributes, Helm values) are "
        "checked, but missing fields are not reported."
    ),
    bad=_BAD,
    good=_GOOD,
    find=_find,
    see="https://kubernetes.io/docs/concepts/overview/working-with-objects/#required-fields",
)
