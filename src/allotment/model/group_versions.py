"""Converts PodGroups, Workloads and CompositePodGroups between the versions of ``scheduling.k8s.io``.

The hub is v1beta1, and v1alpha3 for CompositePodGroups, which have no other version. v1beta1 and v1alpha3 are the same.
v1alpha2, which only Kubernetes 1.36 serves, has another reference to the template, a text as disruption mode, no
composite groups, and another name for the condition of a scheduled group. Trees are never changed, only shared or
copied. A value of a wrong type, which only a file can contain, is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from allotment.model.trees import Tree

GROUP: Final = "scheduling.k8s.io"
OLD_VERSION: Final = f"{GROUP}/v1alpha2"
#: The hub of each kind.
HUBS: Final[Mapping[str, str]] = {
    "PodGroup": f"{GROUP}/v1beta1",
    "Workload": f"{GROUP}/v1beta1",
    "CompositePodGroup": f"{GROUP}/v1alpha3",
}
#: The condition of a group that was scheduled once, and its name in v1alpha2.
SCHEDULED: Final = "PodGroupInitiallyScheduled"
_OLD_SCHEDULED: Final = "PodGroupScheduled"
_TO_UNION: Final = {"Pod": "single", "PodGroup": "all"}
_FROM_UNION: Final = {mode: text for text, mode in _TO_UNION.items()}
#: Fields that v1alpha2 does not have.
_NEW_FIELDS: Final = frozenset({"parentCompositePodGroupName", "compositePodGroupTemplates", "preemptionPolicy"})
#: Fields of v1beta1 that v1alpha2 has in another form, as steps of a JSON patch's path.
_CHANGED_STEPS: Final = frozenset({"workloadRef", "disruptionMode"})


def to_hub(tree: Tree) -> Tree:
    """Convert an object of any version to the hub, including ``apiVersion``; other kinds are unchanged.

    >>> to_hub({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "spec": {"disruptionMode": "Pod"}})
    {'apiVersion': 'scheduling.k8s.io/v1beta1', 'kind': 'PodGroup', 'spec': {'disruptionMode': {'single': {}}}}
    """
    version, hub = tree.get("apiVersion"), HUBS.get(str(tree.get("kind")))
    if hub is None or not isinstance(version, str) or version.partition("/")[0] != GROUP:
        return tree
    converted = _converted(tree, _spec_to_hub, _condition_to_hub) if version == OLD_VERSION else tree
    return {**converted, "apiVersion": hub}


def from_hub(tree: Tree, api_version: str) -> Tree:
    """Convert an object from the hub to another version. Fields that the version does not have are left out."""
    if tree.get("kind") not in HUBS:
        return tree
    converted = _converted(tree, _spec_from_hub, _condition_from_hub) if api_version == OLD_VERSION else tree
    return {**converted, "apiVersion": api_version}


def patch_from_hub(patch: Any, kind: str, api_version: str) -> Any:
    """Convert a patch of an object of ``kind`` to another version.

    Raises ValueError for an operation of a JSON patch on a field that the version has in another form.
    """
    if api_version != OLD_VERSION or kind not in HUBS:
        return {**patch, "apiVersion": api_version} if isinstance(patch, dict) and "apiVersion" in patch else patch
    if isinstance(patch, dict):
        converted = from_hub({**patch, "kind": kind}, api_version)
        return {name: value for name, value in converted.items() if name in patch}
    for operation in patch:
        if _CHANGED_STEPS & {*operation["path"].split("/")}:
            raise ValueError(f"{operation['path']}: v1alpha2 has this field in another form: use a merge patch")
    return patch


def _converted(tree: Tree, spec: Callable[[Tree], Tree], condition: Callable[[Tree], Tree]) -> Tree:
    if isinstance(tree.get("spec"), dict):
        tree = {**tree, "spec": spec(tree["spec"])}
    status = tree.get("status")
    if isinstance(status, dict) and isinstance(status.get("conditions"), list):
        tree = {
            **tree,
            "status": {**status, "conditions": [_of_mapping(item, condition) for item in status["conditions"]]},
        }
    return tree


def _spec_to_hub(spec: Tree) -> Tree:
    spec = _with_templates(_disruption(spec, _mode_to_hub), _mode_to_hub)
    if "podGroupTemplateRef" not in spec:
        return spec
    workload = _of_mapping(spec["podGroupTemplateRef"], lambda reference: reference.get("workload"))
    reference = _of_mapping(workload, lambda found: _renamed(found, "podGroupTemplateName", "templateName"))
    return {**_without(spec, "podGroupTemplateRef"), "workloadRef": reference}


def _spec_from_hub(spec: Tree) -> Tree:
    spec = _with_templates(_disruption(_without(spec, *_NEW_FIELDS), _mode_from_hub), _mode_from_hub)
    if "workloadRef" not in spec:
        return spec
    reference = spec["workloadRef"] and _of_mapping(
        spec["workloadRef"], lambda found: {"workload": _renamed(found, "templateName", "podGroupTemplateName")}
    )
    return {**_without(spec, "workloadRef"), "podGroupTemplateRef": reference}


def _with_templates(spec: Tree, mode: Callable[[Any], Any]) -> Tree:
    templates = spec.get("podGroupTemplates")
    if not isinstance(templates, list):
        return spec
    converted = [
        _of_mapping(item, lambda template: _disruption(_without(template, "preemptionPolicy"), mode))
        for item in templates
    ]
    return {**spec, "podGroupTemplates": converted}


def _disruption(tree: Tree, mode: Callable[[Any], Any]) -> Tree:
    return {**tree, "disruptionMode": mode(tree["disruptionMode"])} if "disruptionMode" in tree else tree


def _mode_to_hub(mode: Any) -> Any:
    return {_TO_UNION[mode]: {}} if isinstance(mode, str) and mode in _TO_UNION else mode


def _mode_from_hub(mode: Any) -> Any:
    if not isinstance(mode, dict):
        return mode
    return next((_FROM_UNION[name] for name, value in mode.items() if name in _FROM_UNION and value is not None), None)


def _condition_to_hub(condition: Tree) -> Tree:
    return {**condition, "type": SCHEDULED} if condition.get("type") == _OLD_SCHEDULED else condition


def _condition_from_hub(condition: Tree) -> Tree:
    return {**condition, "type": _OLD_SCHEDULED} if condition.get("type") == SCHEDULED else condition


def _of_mapping(value: Any, convert: Callable[[Tree], Any]) -> Any:
    return convert(value) if isinstance(value, dict) else value


def _without(tree: Tree, *names: str) -> Tree:
    return {name: value for name, value in tree.items() if name not in names}


def _renamed(tree: Tree, old: str, new: str) -> Tree:
    return {new if name == old else name: value for name, value in tree.items()}
