"""LimitRange admission: default requests and limits of containers, and bounds of pods and claims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from allotment.apiserver.kinds.admission_errors import forbidden
from allotment.apiserver.kinds.kind import Write
from allotment.model.pod_resources import Amounts, pod_limits, pod_requests
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree

_ANNOTATION: Final = "kubernetes.io/limit-ranger"


def _limit_items(write: Write, limit_type: str) -> Iterator[Tree]:
    for entry in write.reader.list("limitranges", write.namespace):
        for item in (entry.tree.get("spec") or {}).get("limits") or ():
            if item.get("type") == limit_type:
                yield item


def apply_default_limits(pod: Tree, spec: Tree, write: Write) -> None:
    """Set missing requests and limits of containers from the namespace's LimitRanges; listed in an annotation.

    Modifies ``pod`` and ``spec`` in place, but not the objects in them.
    """
    defaults: Tree = {}
    default_requests: Tree = {}
    for item in _limit_items(write, "Container"):
        defaults |= item.get("default") or {}
        default_requests |= item.get("defaultRequest") or {}
    if not defaults and not default_requests:
        return
    descriptions: list[str] = []
    for label, part in (("container", "containers"), ("init container", "initContainers")):
        items: list[Tree] = [dict(item) for item in spec.get(part) or ()]
        if items:
            spec[part] = items
        for item in items:
            resources = item["resources"] = dict(item.get("resources") or {})
            requested = _fill_resources(resources, "requests", default_requests)
            limited = _fill_resources(resources, "limits", defaults)
            if requested:
                descriptions.append(f"{', '.join(requested)} request for {label} {item.get('name')}")
            if limited:
                descriptions.append(f"{', '.join(limited)} limit for {label} {item.get('name')}")
    if descriptions:
        annotations = {**(pod["metadata"].get("annotations") or {})}
        annotations[_ANNOTATION] = "LimitRanger plugin set: " + "; ".join(descriptions)
        pod["metadata"] = {**pod["metadata"], "annotations": annotations}


def _fill_resources(resources: Tree, part: str, defaults: Tree) -> list[str]:
    specified = resources.get(part) or {}
    missing = sorted(name for name in defaults if name not in specified)
    if missing:
        resources[part] = {**specified, **{name: defaults[name] for name in missing}}
    return missing


def check_pod_limits(pod: Tree, write: Write) -> None:
    """Reject a pod that violates a bound; the error lists all violations."""
    violations: list[str] = []
    spec = pod.get("spec") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for item in _limit_items(write, "Container"):
        for container in containers:
            violations.extend(_violations(item, container.get("resources") or {}, "Container"))
    pods = list(_limit_items(write, "Pod"))
    if pods:
        # Kubernetes does not count the overhead here, which the cluster adds.
        total = {
            "requests": _amount_texts(pod_requests(spec, overhead=False)),
            "limits": _amount_texts(pod_limits(spec, overhead=False)),
        }
        for item in pods:
            violations.extend(_violations(item, total, "Pod"))
    if violations:
        text = violations[0] if len(violations) == 1 else f"[{', '.join(dict.fromkeys(violations))}]"
        raise forbidden("pods", pod["metadata"].get("name") or "", text)


def check_claim_limits(claim: Tree, write: Write) -> None:
    """Reject a PersistentVolumeClaim that violates a bound on storage."""
    resources = (claim.get("spec") or {}).get("resources") or {}
    violations = [
        violation
        for item in _limit_items(write, "PersistentVolumeClaim")
        for violation in _violations(
            item, {"requests": resources.get("requests") or {}, "limits": {}}, "PersistentVolumeClaim"
        )
        if "no limit" not in violation
    ]
    if violations:
        text = violations[0] if len(violations) == 1 else f"[{', '.join(violations)}]"
        raise forbidden("persistentvolumeclaims", claim["metadata"].get("name") or "", text)


def _violations(item: Tree, resources: Tree, limit_type: str) -> Iterator[str]:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, bound in sorted((item.get("min") or {}).items()):
        request, minimum = _amount(requests, name), Quantity.parse(str(bound))
        if request is None:
            yield f"minimum {name} usage per {limit_type} is {minimum}.  No request is specified"
        elif request < minimum:
            yield f"minimum {name} usage per {limit_type} is {minimum}, but request is {request}"
    for name, bound in sorted((item.get("max") or {}).items()):
        request, limit, maximum = _amount(requests, name), _amount(limits, name), Quantity.parse(str(bound))
        if limit_type == "PersistentVolumeClaim":
            if request is not None and request > maximum:
                yield f"maximum {name} usage per {limit_type} is {maximum}, but request is {request}"
        elif limit is None:
            yield f"maximum {name} usage per {limit_type} is {maximum}.  No limit is specified"
        elif limit > maximum:
            yield f"maximum {name} usage per {limit_type} is {maximum}, but limit is {limit}"
    for name, bound in sorted((item.get("maxLimitRequestRatio") or {}).items()):
        request, limit = _amount(requests, name), _amount(limits, name)
        if request is None or limit is None or request.nano == 0:
            yield (
                f"{name} max limit to request ratio per {limit_type} is {bound}, but no request is specified or "
                "request is 0"
            )
        elif limit.nano / request.nano > Quantity.parse(str(bound)).nano / 10**9:
            yield (
                f"{name} max limit to request ratio per {limit_type} is {bound}, but provided ratio is "
                f"{limit.nano / request.nano:.6f}"
            )


def _amount(amounts: Tree, name: str) -> Quantity | None:
    text = amounts.get(name)
    return None if text is None else Quantity.parse(str(text))


def _amount_texts(amounts: Amounts) -> Tree:
    return {name: str(amount) for name, amount in amounts.items()}
