"""V314: a misspelled extended resource of a known vendor, such as nvidia.com/gpus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from allotment.explanation.container_devices import PLUGIN_RESOURCES
from allotment.model.editing.edits import Edit, RenameKey
from allotment.model.loading import Document
from allotment.model.node_label_resources import is_node_label
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import typo_of, vocabularies
from allotment.tools.check.objects.container_resources import ContainerResource, container_resources, provided_resources
from allotment.tools.check.objects.gates import IMPLICIT_RESOURCE_PREFIX
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import PodView

#: Resources of other device plugins, whose names are similar: passthrough GPUs, and shares of GPUs.
_OTHERS: Final = frozenset({
    "nvidia.com/pgpu", "nvidia.com/vgpu", "nvidia.com/gpumem", "nvidia.com/gpucores", "nvidia.com/gpumem-percentage",
})  # fmt: skip
_SHARED: Final = "nvidia.com/gpu.shared"


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    provided = bundle.cached(provided_resources)
    terms = (term.extended_resource for vocab in vocabularies(bundle) for term in vocab.classes)
    known = frozenset({*filter(None, terms), _SHARED})
    for pod in bundle.pods:
        for found in container_resources(pod):
            if found.name in provided or _is_other(found.name):
                continue
            intended = _intended(found.name, provided | known)
            if intended:
                yield RuleMatch(
                    pod.document,
                    found.path,
                    f'no driver or device plugin provides "{found.name}", so the pod stays pending: did you mean '
                    f'"{intended}"?',
                    fix=Fix(f"use {intended}", tuple(_renamings(pod, found, intended)), safe=False),
                    at_key=True,
                )


def _is_other(resource: str) -> bool:
    """Whether a resource is one of other rules, or one that a device plugin may have."""
    is_plugin = any(names.fullmatch(resource) for _, names in PLUGIN_RESOURCES)
    return is_plugin or resource in _OTHERS or is_node_label(resource) or resource.startswith(IMPLICIT_RESOURCE_PREFIX)


def _intended(resource: str, known: Iterable[str]) -> str:
    """The known resource of which either the domain or the rest is misspelled; empty if there is none.

    >>> _intended("nvidia.com/gpus", ["nvidia.com/gpu", "amd.com/gpu"]), _intended("nvida.com/gpu", ["nvidia.com/gpu"])
    ('nvidia.com/gpu', 'nvidia.com/gpu')
    >>> _intended("nvidia.com/gpu-a100", ["nvidia.com/gpu"]), _intended("example.com/gpu", ["nvidia.com/gpu"])
    ('', '')
    """
    domain, slash, name = resource.rpartition("/")
    parts = [other.rpartition("/") for other in known]
    if slash and (rest := typo_of(name, [other for owner, _, other in parts if owner == domain])):
        return f"{domain}/{rest}"
    owner = typo_of(domain, [owner for owner, _, other in parts if other == name]) if slash else ""
    return f"{owner}/{name}" if owner else ""


def _renamings(pod: PodView, found: ContainerResource, name: str) -> Iterator[tuple[Document, Edit]]:
    for field, amounts in (("limits", found.container.limits), ("requests", found.container.requests)):
        if found.name in amounts:
            yield pod.document, RenameKey((*found.container.path, "resources", field, found.name), name)


_POD: Final = """\
apiVersion: v1
kind: Pod
metadata:
  name: trainer
spec:
  containers:
  - name: trainer
    image: registry.example/trainer:1
    resources:
      limits:
        {}: 1
"""

RULE = Rule(
    code="V314",
    name="misspelled-resource",
    family="vocabulary",
    level="error",
    summary="a container requests a resource whose name is a misspelled one of a known driver",
    why=(
        "The API server accepts any resource name with a domain. The scheduler requires a node whose device plugin "
        "has the resource, or a DeviceClass with this extendedResourceName (KEP-5004). No driver has the misspelled "
        "name, so the pod stays pending with 'Insufficient NAME', which looks as if all devices were in use."
    ),
    bad=_POD.format("nvidia.com/gpus"),
    good=_POD.format("nvidia.com/gpu"),
    find=_find,
    fixable="unsafe",
    see="https://kep.k8s.io/5004",
)
