"""Rules for the templates of a Workload that span several templates: names, depth, priorities (KEP-4671, KEP-5732).

The rules for single fields are in :mod:`allotment.model.validation.group_schemas`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from allotment.model.trees import Tree
from allotment.model.validation.errors import Errors, duplicate, invalid
from allotment.model.validation.gotext import GoStruct

#: A root CompositePodGroup has depth 1.
MAX_DEPTH: Final = 4
_GROUPS: Final = "podGroupTemplates"
_COMPOSITES: Final = "compositePodGroupTemplates"


def workload_templates(spec: Tree, path: str) -> Errors:
    """Validate the templates of a WorkloadSpec, in the order of Kubernetes' messages."""
    composites = _children(spec, _COMPOSITES)
    yield from _composite_names(composites, path, {_name(group) for group in _children(spec, _GROUPS)})
    for index, composite in enumerate(composites):
        if _depth(composite) > MAX_DEPTH:
            value = [_go_value(child, "CompositePodGroupTemplate") for child in _children(composite, _COMPOSITES)]
            detail = f"maximum template hierarchy depth is {MAX_DEPTH}"
            yield invalid(f"{path}.{_COMPOSITES}[{index}]", value, detail)
    yield from _priorities(spec, path)
    for index, composite in enumerate(composites):
        yield from _has_child(composite, f"{path}.{_COMPOSITES}[{index}]")


def _children(template: Tree, field: str) -> Sequence[Tree]:
    return template.get(field) or ()


def _name(template: Tree) -> str:
    return template.get("name") or ""


def _composite_names(composites: Sequence[Tree], path: str, seen: set[str]) -> Errors:
    """Names are unique in the whole tree; the declared key of a list finds duplicates within it. Extends ``seen``."""
    for index, composite in enumerate(composites):
        if _name(composite) in seen:
            yield duplicate(f"{path}.{_COMPOSITES}[{index}].name", _name(composite))
    seen.update(map(_name, composites))
    for index, composite in enumerate(composites):
        inner = f"{path}.{_COMPOSITES}[{index}]"
        groups = _children(composite, _GROUPS)
        for position, group in enumerate(groups):
            if _name(group) in seen:
                yield duplicate(f"{inner}.{_GROUPS}[{position}].name", _name(group))
        seen.update(map(_name, groups))
        yield from _composite_names(_children(composite, _COMPOSITES), inner, seen)


def _depth(template: Tree) -> int:
    """The number of levels below the Workload: a CompositePodGroup and its PodGroups are two levels."""
    return 1 + max((_depth(child) for child in _children(template, _COMPOSITES)), default=1)


def _priorities(spec: Tree, path: str) -> Errors:
    """All templates have the same priority and priority class."""
    if len(set(map(_priority, _children(spec, _GROUPS)))) > 1:
        yield invalid(path, None, "detected multiple priority configurations")
    elif len(set(map(_priority, _all_templates(spec)))) > 1:
        detail = "all priority and priorityClassName values must be identical, detected multiple values"
        yield invalid(path, None, detail)


def _priority(template: Tree) -> tuple[str, int | None]:
    return template.get("priorityClassName") or "", template.get("priority")


def _all_templates(template: Tree) -> Iterator[Tree]:
    yield from _children(template, _GROUPS)
    for composite in _children(template, _COMPOSITES):
        yield composite
        yield from _all_templates(composite)


def _has_child(composite: Tree, path: str) -> Errors:
    if not _children(composite, _GROUPS) and not _children(composite, _COMPOSITES):
        detail = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
        yield invalid(path, _name(composite), detail)
    for index, child in enumerate(_children(composite, _COMPOSITES)):
        yield from _has_child(child, f"{path}.{_COMPOSITES}[{index}]")


# --- Go values in messages -------------------------------------------------------------------------------------------

#: The fields of Kubernetes' internal types in order, with their types: a struct of this table, a list of it, or "".
_INTERNAL: Final[Mapping[str, Mapping[str, str]]] = {
    "CompositePodGroupTemplate": {
        "name": "", "schedulingPolicy": "CompositePolicy", "schedulingConstraints": "*Constraints",
        "disruptionMode": "*DisruptionMode", "priorityClassName": "", "priority": "*", "preemptionPolicy": "*",
        "podGroupTemplates": "[]PodGroupTemplate", "compositePodGroupTemplates": "[]CompositePodGroupTemplate",
    },
    "PodGroupTemplate": {
        "name": "", "schedulingPolicy": "Policy", "schedulingConstraints": "*Constraints",
        "resourceClaims": "[]ResourceClaim", "disruptionMode": "*DisruptionMode", "priorityClassName": "",
        "priority": "*", "preemptionPolicy": "*",
    },
    "CompositePolicy": {"basic": "*Empty", "gang": "*CompositeGang"},
    "Policy": {"basic": "*Empty", "gang": "*Gang"},
    "CompositeGang": {"minGroupCount": "0"},
    "Gang": {"minCount": "0"},
    "Constraints": {"topology": "[]Topology"},
    "Topology": {"key": ""},
    "DisruptionMode": {"single": "*Empty", "all": "*Empty"},
    "ResourceClaim": {"name": "", "resourceClaimName": "*", "resourceClaimTemplateName": "*"},
    "Empty": {},
}  # fmt: skip


def _go_value(value: Any, type: str) -> Any:
    """A value as ``encoding/json`` prints Kubernetes' internal type. ``type``: "" string, "0" number, * pointer, []."""
    if type in ("", "0"):
        return value or ("" if type == "" else 0)
    if type.startswith("[]"):
        return None if value is None else [_go_value(item, type[2:]) for item in value]
    if type.startswith("*"):
        return value if value is None or type == "*" else _go_value(value, type[1:])
    tree: Tree = value or {}
    return GoStruct(
        {name[0].upper() + name[1:]: _go_value(tree.get(name), inner) for name, inner in _INTERNAL[type].items()}
    )
