"""The Workload and the PodGroup of a Job: their content and names (KEP-4671, KEP-5547).

The Workload has one template, compiled from the Job's ``spec.scheduling``; the PodGroup is made from the template. The
names end with Kubernetes' own hashes, so that either controller finds the objects of the other.
"""

from __future__ import annotations

from typing import Any, Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.resources import POD_GROUPS, WORKLOADS
from allotment.controllers.pods import owner_reference
from allotment.model.trees import Tree

#: The annotation with which a Job's parent delegates the PodGroup: the template's name.
TEMPLATE_ANNOTATION: Final = "scheduling.k8s.io/group-template-name"

_LONGEST_NAME: Final = 253
#: The fields of a template that its PodGroups have as well.
_GROUP_FIELDS: Final = (
    "schedulingPolicy", "schedulingConstraints", "disruptionMode", "resourceClaims", "priorityClassName", "priority",
)  # fmt: skip
#: The alphabet of generated names in Kubernetes: no vowels, and no digits that look like letters.
_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"


def workload_of(job: CachedItem[Any]) -> Tree:
    """The Workload of a Job."""
    return {
        "kind": WORKLOADS.kind,
        "apiVersion": WORKLOADS.api_version,
        "metadata": {
            "name": workload_name(job.name, job.uid),
            "namespace": job.namespace,
            "ownerReferences": [owner_reference(job.tree)],
        },
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": job.name},
            "podGroupTemplates": [_template_of(job)],
        },
    }


def pod_group_of(job: CachedItem[Any], workload: CachedItem[Any], template: Tree, *, workload_owns: bool) -> Tree:
    """The PodGroup of a Job from a template of a Workload. ``workload_owns``: whether the Workload is an owner, too."""
    owners = [owner_reference(job.tree)]
    if workload_owns:
        owners.append(
            {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, "name": workload.name, "uid": workload.uid}
        )
    reference = {"workloadName": workload.name, "templateName": template["name"]}
    copied = {field: template[field] for field in _GROUP_FIELDS if template.get(field) not in (None, [], "")}
    return {
        "kind": POD_GROUPS.kind,
        "apiVersion": POD_GROUPS.api_version,
        "metadata": {
            "name": pod_group_name(workload.name, template["name"]),
            "namespace": job.namespace,
            "ownerReferences": owners,
        },
        "spec": {"workloadRef": reference, **copied},
    }


def min_count_of(specification: Tree) -> int | None:
    """The minimal number of pods of a gang, of a template or PodGroup; None for another policy."""
    gang = (specification.get("schedulingPolicy") or {}).get("gang")
    return None if gang is None else int(gang["minCount"])


def workload_name(job: str, uid: str) -> str:
    """The name of the Workload of a Job.

    >>> workload_name("j", "8fcdba92-3071-4a05-a4f1-531ee3fc1289")
    'j-645854ff6d'
    """
    suffix = _safe_hash(f"(types.UID){uid}")
    return f"{job[: _LONGEST_NAME - len(suffix) - 1]}-{suffix}"


def pod_group_name(workload: str, template: str) -> str:
    """The name of the PodGroup of a template; long names are shortened to equal parts.

    >>> pod_group_name("j-645854ff6d", "j-pgt-0")
    'j-645854ff6d-j-pgt-0-94995886f'
    """
    suffix = _safe_hash(workload + template)
    available = _LONGEST_NAME - len(suffix) - 2
    half = available // 2
    if len(workload) + len(template) > available:
        if len(workload) <= half:
            template = template[: available - len(workload)]
        elif len(template) <= half:
            workload = workload[: available - len(template)]
        else:
            workload, template = workload[: available - half], template[:half]
    return f"{workload}-{template}-{suffix}"


def _template_of(job: CachedItem[Any]) -> Tree:
    """The template of a Job's PodGroup: the basic policy unless the Job has another one."""
    scheduling = job.spec.get("scheduling") or {}
    template: Tree = {"name": f"{job.name}-pgt-0", "schedulingPolicy": {"basic": {}}}
    gang = (scheduling.get("schedulingPolicy") or {}).get("gang")
    if gang is not None:
        count = gang.get("minCount")
        # Parallelism is 0 for some suspended Jobs.
        template["schedulingPolicy"] = {
            "gang": {"minCount": max(job.spec.get("parallelism", 1), 1) if count is None else count}
        }
    if topology := (scheduling.get("schedulingConstraints") or {}).get("topology"):
        template["schedulingConstraints"] = {"topology": [{"key": constraint["key"]} for constraint in topology]}
    mode = scheduling.get("disruptionMode") or {}
    if chosen := next((name for name in ("all", "single") if mode.get(name) is not None), ""):
        template["disruptionMode"] = {chosen: {}}
    if claims := scheduling.get("resourceClaims"):
        template["resourceClaims"] = claims
    if priority_class := job.spec["template"].get("spec", {}).get("priorityClassName"):
        template["priorityClassName"] = priority_class
    return template


def _safe_hash(text: str) -> str:
    """The 32-bit FNV-1a hash of a text, in letters and digits as in Kubernetes' names."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(value))
