"""S117: fields that only an older or newer release has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from allotment.model.editing.edits import Edit, Nest, RenameKey, SetValue
from allotment.model.loading.marks import Path
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.decoding_errors import AttributedError, decoding_errors_for
from allotment.tools.check.objects.gates import is_unknown_gate_field
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import at, mapping

_MAPPINGS: Final = "nodeAllocatableResourceMappings"
_RESOURCES: Final = "nodeAllocatableResources"


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """Fields of other releases, unless the gate of the field explains them."""
    for error in decoding_errors_for(bundle, "other-release"):
        misfit, document = error.misfit, error.document
        struct = error.struct.bare_name if error.struct is not None else ""
        name = str(misfit.path[-1])
        if is_unknown_gate_field(struct, name, bundle.features):
            continue
        message = f'Kubernetes {bundle.features.kube} has no field "{name}" in {struct or document.kind}'
        yield RuleMatch(document, misfit.path, message, help=misfit.hint, fix=_fix(error), at_key=True)


def _fix(error: AttributedError) -> Fix | None:
    """The edits that write node-allocatable resources as 1.37 requires."""
    path, document = error.misfit.path, error.document
    device = mapping(at(document.tree, path[:-1]))
    if path[-1] != _MAPPINGS or error.struct is None or _RESOURCES not in error.struct.fields or _RESOURCES in device:
        return None
    edits: list[Edit] = []
    for name, resource in mapping(device[_MAPPINGS]).items():
        if not isinstance(resource, dict | None):
            return None
        edits += _resource((*path, name), resource or {})
    edits.append(RenameKey(path, _RESOURCES))
    text = f"write {_RESOURCES}, with each mapping under mapping"
    return Fix(text, tuple((document, edit) for edit in edits), safe=True)


def _resource(path: Path, resource: dict[str, Any]) -> Iterator[Edit]:
    """Move a mapping under ``mapping``. Its multiplier was 1 by default; now it is required (KEP-5517)."""
    multiplier = "capacityMultiplier" if resource.get("capacityKey") is not None else "deviceMultiplier"
    if not resource:
        yield SetValue(path, {"mapping": {multiplier: "1"}})
        return
    if "allocationMultiplier" in resource:
        yield RenameKey((*path, "allocationMultiplier"), multiplier)
    else:
        yield SetValue((*path, multiplier), "1")
    yield Nest(path, (*resource, multiplier), "mapping")


_OLD = """\
- name: cores-0
  capacity:
    cores: {value: "8"}
  nodeAllocatableResourceMappings:
    cpu:
      capacityKey: cores   # one CPU each
      allocationMultiplier: "1"
    memory:
      allocationMultiplier: 2Gi
"""

_NEW = """\
- name: cores-0
  capacity:
    cores: {value: "8"}
  nodeAllocatableResources:
    cpu:
      mapping:
        capacityKey: cores   # one CPU each
        capacityMultiplier: "1"
    memory:
      mapping:
        deviceMultiplier: 2Gi
"""

RULE = Rule(
    code="S117",
    name="other-release",
    family="shape",
    level="error",
    summary="only an older or newer release of Kubernetes has the field",
    why=(
        "With strict decoding, kubectl's default, the API server rejects a field that its release does not have; for "
        "other clients it silently drops the field. Alpha fields can be renamed: 1.37 replaced "
        "nodeAllocatableResourceMappings by nodeAllocatableResources, in which each resource has a mapping, an "
        "overhead or both, and a multiplier is required (KEP-5517). In 1.36, schedulingGroup replaced the workloadRef "
        "of pods (KEP-4671)."
    ),
    bad=examples.resource_slice(_OLD, node="worker-2"),
    good=examples.resource_slice(_NEW, node="worker-2"),
    find=_find,
    fixable="safe",
    see="https://kep.k8s.io/5517",
    kube="1.37",
)
