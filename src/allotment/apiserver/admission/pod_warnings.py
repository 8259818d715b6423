"""Adds the warnings about written pods and pod templates to responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from allotment.apiserver.admission.attributes import Attributes
from allotment.apiserver.admission.pod_security import TEMPLATES
from allotment.apiserver.kinds.pod_warnings import pod_warnings
from allotment.model.trees import Tree
from allotment.model.validation.names import label_problems

#: Kinds whose names become part of the names of pods.
_NAMING: Final = frozenset(
    {"replicationcontrollers", "replicasets.apps", "deployments.apps", "jobs.batch", "cronjobs.batch"}
)
_LABEL: Final = "a DNS label is recommended"


def _warn_of_pod(attributes: Attributes) -> None:
    if attributes.old is not None or attributes.new is None:
        return
    _warn_of_name(attributes, "this is used in the Pod's hostname")
    for warning in pod_warnings(attributes.new["metadata"], attributes.new["spec"]):
        attributes.warn(warning)


def _warn_of_template(attributes: Attributes) -> None:
    if attributes.subresource or attributes.new is None:
        return
    if attributes.old is None and attributes.kind.bucket in _NAMING:
        _warn_of_name(attributes, "this is used in Pod names and hostnames")
    path = TEMPLATES[attributes.kind.bucket]
    template: Tree = attributes.new
    for step in path:
        template = template.get(step) or {}
    if attributes.old is None or attributes.old.get("spec") != attributes.new.get("spec"):
        prefix = ".".join((*path, ""))
        for warning in pod_warnings(template.get("metadata") or {}, template.get("spec") or {}, prefix):
            attributes.warn(warning)


def _warn_of_name(attributes: Attributes, use: str) -> None:
    if problems := label_problems(attributes.name):
        result = "which can result in surprising behavior"
        attributes.warn(f"metadata.name: {use}, {result}; {_LABEL}: [{' '.join(problems)}]")


#: By bucket.
WARNINGS: Final[Mapping[str, Callable[[Attributes], None]]] = {
    "pods": _warn_of_pod, **dict.fromkeys(TEMPLATES, _warn_of_template),
}  # fmt: skip
