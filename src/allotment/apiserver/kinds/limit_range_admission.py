"""LimitRange: defaults for containers that ask for nothing, and bounds that a pod or claim must keep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from allotment.apiserver.kinds.admission_errors import forbidden
from allotment.apiserver.kinds.kind import Write
from allotment.model.pod_resources import Amounts, pod_limits, pod_requests
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree

_ANNOTATION: Final = "kubernetes.io/limit-ranger"


def _items(write: Write, sort: str) -> Iterator[Tree]:
    for entry in write.reader.list("limitranges", write.namespace):
        for item in (entry.tree.get("spec") or {}).get("limits") or ():
            if item.get("type") == sort:
                yield item


def with_default_limits(pod: Tree, spec: Tree, write: Write) -> None:
    """Give containers without requests or limits those of the namespace's LimitRanges; told in an annotation.

    ``pod`` and its ``spec`` are the caller's own and change; what is in them does not.
    """
    defaults: Tree = {}
    default_requests: Tree = {}
    for item in _items(write, "Container"):
        defaults |= item.get("default") or {}
        default_requests |= item.get("defaultRequest") or {}
    if not defaults and not default_requests:
        return
    told: list[str] = []
    for sort, part in (("container", "containers"), ("init container", "initContainers")):
        items: list[Tree] = [dict(item) for item in spec.get(part) or ()]
        if items:
            spec[part] = items
        for item in items:
            resources = item["resources"] = dict(item.get("resources") or {})
            requested = _fill(resources, "requests", default_requests)
            limited = _fill(resources, "limits", defaults)
            if requested:
                told.append(f"{', '.join(requested)} request for {sort} {item.get('name')}")
            if limited:
                told.append(f"{', '.join(limited)} limit for {sort} {item.get('name')}")
    if told:
        annotations = {**(pod["metadata"].get("annotations") or {})}
        annotations[_ANNOTATION] = "LimitRanger plugin set: " + "; ".join(told)
        pod["metadata"] = {**pod["metadata"], "annotations": annotations}


def _fill(resources: Tree, part: str, defaults: Tree) -> list[str]:
    own = resources.get(part) or {}
    missing = sorted(name for name in defaults if name not in own)
    if missing:
        resources[part] = {**own, **{name: defaults[name] for name in missing}}
    return missing


def keep_pod_within(pod: Tree, write: Write) -> None:
    """Refuse a pod that breaks a bound; all breaches are told together."""
    breaches: list[str] = []
    spec = pod.get("spec") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for item in _items(write, "Container"):
        for container in containers:
            breaches.extend(_breaches(item, container.get("resources") or {}, "Container"))
    pods = list(_items(write, "Pod"))
    if pods:
        # Kubernetes leaves out the overhead here: it is the cluster's, not the author's.
        total = {
            "requests": _texts(pod_requests(spec, overhead=False)), "limits": _texts(pod_limits(spec, overhead=False))
        }  # fmt: skip
        for item in pods:
            breaches.extend(_breaches(item, total, "Pod"))
    if breaches:
        text = breaches[0] if len(breaches) == 1 else f"[{', '.join(dict.fromkeys(breaches))}]"
        raise forbidden("pods", pod["metadata"].get("name") or "", text)


def keep_claim_within(claim: Tree, write: Write) -> None:
    """Refuse a PersistentVolumeClaim that breaks a bound on storage."""
    resources = (claim.get("spec") or {}).get("resources") or {}
    breaches = [
        breach
        for item in _items(write, "PersistentVolumeClaim")
        for breach in _breaches(
            item, {"requests": resources.get("requests") or {}, "limits": {}}, "PersistentVolumeClaim"
        )
        if "no limit" not in breach
    ]
    if breaches:
        text = breaches[0] if len(breaches) == 1 else f"[{', '.join(breaches)}]"
        raise forbidden("persistentvolumeclaims", claim["metadata"].get("name") or "", text)


def _breaches(item: Tree, resources: Tree, sort: str) -> Iterator[str]:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, bound in sorted((item.get("min") or {}).items()):
        request, least = _amount(requests, name), Quantity.parse(str(bound))
        if request is None:
            yield f"minimum {name} usage per {sort} is {least}.  No request is specified"
        elif request < least:
            yield f"minimum {name} usage per {sort} is {least}, but request is {request}"
    for name, bound in sorted((item.get("max") or {}).items()):
        request, limit, most = _amount(requests, name), _amount(limits, name), Quantity.parse(str(bound))
        if sort == "PersistentVolumeClaim":
            if request is not None and request > most:
                yield f"maximum {name} usage per {sort} is {most}, but request is {request}"
        elif limit is None:
            yield f"maximum {name} usage per {sort} is {most}.  No limit is specified"
        elif limit > most:
            yield f"maximum {name} usage per {sort} is {most}, but limit is {limit}"
    for name, bound in sorted((item.get("maxLimitRequestRatio") or {}).items()):
        request, limit = _amount(requests, name), _amount(limits, name)
        if request is None or limit is None or request.nano == 0:
            yield (
                f"{name} max limit to request ratio per {sort} is {bound}, but no request is specified or request is 0"
            )
        elif limit.nano / request.nano > Quantity.parse(str(bound)).nano / 10**9:
            yield (
                f"{name} max limit to request ratio per {sort} is {bound}, but provided ratio is "
                f"{limit.nano / request.nano:.6f}"
            )


def _amount(amounts: Tree, name: str) -> Quantity | None:
    text = amounts.get(name)
    return None if text is None else Quantity.parse(str(text))


def _texts(amounts: Amounts) -> Tree:
    return {name: str(amount) for name, amount in amounts.items()}
