"""Edits that convert a PodGroup or Workload to another version of ``scheduling.k8s.io``.

:mod:`allotment.model.group_versions` defines the conversion. The edits do the same in place, so that comments stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from allotment.model.editing.edits import Edit, EditError, Lift, Nest, RenameKey, SetValue
from allotment.model.editing.tree_edits import apply_edits, json_equal
from allotment.model.fields import shape_of
from allotment.model.group_versions import OLD_VERSION, from_hub, to_hub
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.model.strict_decoding import strict_decode
from allotment.tools.views import at, items, mapping

_OLD_REFERENCE: Final = ("spec", "podGroupTemplateRef")
_REFERENCE: Final = ("spec", "workloadRef")


def reshape_group(document: Document, target: str, release: str) -> list[Edit] | None:
    """The edits, including that of ``apiVersion``; None if the version cannot express the object."""
    tree = document.tree
    converted = _convert(tree, target)
    edits = [SetValue(("apiVersion",), target), *_reference(tree, target), *_changed_values(tree, converted)]
    try:
        result = apply_edits(tree, edits)
    except EditError:
        return None
    return edits if json_equal(result, converted) and _keeps_content(tree, converted, target, release) else None


def _convert(tree: dict[str, Any], target: str) -> dict[str, Any]:
    """The object in another version; kinds other than groups of pods are the same in all of them."""
    return {**from_hub(to_hub(tree), target), "apiVersion": target}


def _reference(tree: dict[str, Any], target: str) -> Iterator[Edit]:
    """The edits of the reference to the template of a Workload."""
    old, new = at(tree, _OLD_REFERENCE), at(tree, _REFERENCE)
    if target == OLD_VERSION and isinstance(new, dict):
        if "templateName" in new:
            yield RenameKey((*_REFERENCE, "templateName"), "podGroupTemplateName")
        yield Nest(_REFERENCE, ("workloadName", "podGroupTemplateName"), "workload")
        yield RenameKey(_REFERENCE, _OLD_REFERENCE[-1])
    elif target != OLD_VERSION and isinstance(old, dict):
        workload = mapping(old.get("workload"))
        if "podGroupTemplateName" in workload:
            yield RenameKey((*_OLD_REFERENCE, "workload", "podGroupTemplateName"), "templateName")
        yield Lift((*_OLD_REFERENCE, "workload"))
        yield RenameKey(_OLD_REFERENCE, _REFERENCE[-1])


def _changed_values(tree: dict[str, Any], converted: dict[str, Any]) -> Iterator[Edit]:
    """The edits of values that another version writes differently."""
    templates: Path = ("spec", "podGroupTemplates")
    paths: list[Path] = [("spec", "disruptionMode")]
    paths += [(*templates, number, "disruptionMode") for number, _ in items(at(tree, templates))]
    conditions: Path = ("status", "conditions")
    paths += [(*conditions, number, "type") for number, _ in items(at(tree, conditions))]
    for path in paths:
        if at(tree, path) is not None and at(tree, path) != at(converted, path):
            yield SetValue(path, at(converted, path))


def _keeps_content(tree: dict[str, Any], converted: dict[str, Any], target: str, release: str) -> bool:
    """Whether the target version knows every field, and converting back returns the object."""
    kind, version = str(tree.get("kind")), str(tree.get("apiVersion"))
    shape = shape_of(target, kind, release)
    if shape is None or strict_decode(converted, target, kind, shape, release=release).violations:
        return False
    return shape_of(version, kind) is None or json_equal(_convert(converted, version), tree)
