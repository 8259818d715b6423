"""Builds claims, templates and pods as YAML, and runs a rule on them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from allotment.model.editing.tree_edits import apply_edits
from allotment.model.loading.marks import join_path
from allotment.tools.check.rule import Rule, RuleMatch
from tests.unit.tools.check.bundles import bundle_of

GPU = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
#: Parameters for time-slicing, for all requests.
SHARING = {
    "opaque": {"driver": "gpu.nvidia.com", "parameters": {"kind": "GpuConfig", "sharing": {"strategy": "TimeSlicing"}}}
}


def claim(*requests: Any, name: str = "gpu", namespace: str = "", **devices: Any) -> str:
    spec = {"devices": {"requests": list(requests or (GPU,)), **devices}}
    return _manifest("resource.k8s.io/v1", "ResourceClaim", name, namespace, spec)


def template(*requests: Any, name: str = "gpu", namespace: str = "", **devices: Any) -> str:
    spec = {"spec": {"devices": {"requests": list(requests or (GPU,)), **devices}}}
    return _manifest("resource.k8s.io/v1", "ResourceClaimTemplate", name, namespace, spec)


def gpu_request(name: str = "gpu", **exactly: Any) -> dict[str, Any]:
    """A request for a GPU, with further fields in ``exactly``."""
    return {"name": name, "exactly": {"deviceClassName": "gpu.nvidia.com", **exactly}}


def request_with_selector(expression: str, name: str = "gpu") -> dict[str, Any]:
    """A request with a selector."""
    return gpu_request(name, selectors=[{"cel": {"expression": expression}}])


def pod(uses: Iterable[Mapping[str, str]] = ({"name": "gpu"},), **more: Any) -> str:
    """A pod with one container, and a claim of template ``gpu`` unless ``resourceClaims`` says otherwise."""
    name, namespace, spec = _pod_spec(uses, more)
    return _manifest("v1", "Pod", name, namespace, spec)


def workload(kind: str = "Deployment", uses: Iterable[Mapping[str, str]] = ({"name": "gpu"},), **more: Any) -> str:
    """A workload of such pods; ``replicas`` and ``parallelism`` are fields of its own spec."""
    workload_fields: dict[str, Any] = {field: more.pop(field) for field in ("replicas", "parallelism") if field in more}
    name, namespace, spec = _pod_spec(uses, more)
    meta: dict[str, Any] = {"labels": {"app": name}}
    workload_spec: dict[str, Any] = {
        **workload_fields,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": meta, "spec": spec},
    }
    version = "batch/v1" if kind == "Job" else "apps/v1"
    if kind == "Job":
        spec["restartPolicy"] = "Never"
        del workload_spec["selector"]
    return _manifest(version, kind, name, namespace, workload_spec)


def by_claim(name: str = "gpu") -> list[dict[str, str]]:
    """``resourceClaims`` with one entry that references a claim."""
    return [{"name": "gpu", "resourceClaimName": name}]


def by_template(name: str = "gpu") -> list[dict[str, str]]:
    """``resourceClaims`` with one entry that references a template."""
    return [{"name": "gpu", "resourceClaimTemplateName": name}]


def levels_and_paths(rule: Rule, *texts: str, **settings: Any) -> list[tuple[str, str]]:
    """Level and location of each match: ``("error", "Pod spec.nodeName")``."""
    return [
        (match.level or rule.level, f"{match.document.kind} {join_path(match.path)}".strip())
        for match in matches_of(rule, *texts, **settings)
    ]


def matches_of(rule: Rule, *texts: str, **settings: Any) -> list[RuleMatch]:
    """The matches of a rule."""
    return list(rule.find(bundle_of("---\n".join(texts), **settings)))


def fixed_documents(rule: Rule, *texts: str, **settings: Any) -> list[dict[str, Any]]:
    """The documents after the first fix of a rule."""
    bundle = bundle_of("---\n".join(texts), **settings)
    fix = next(match.fix for match in rule.find(bundle) if match.fix is not None)
    return [apply_edits(d.tree, [edit for document, edit in fix.edits if document is d]) for d in bundle.documents]


def _pod_spec(uses: Iterable[Mapping[str, str]], more: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    name, namespace = more.pop("name", "app"), more.pop("namespace", "")
    limits = more.pop("limits", None)
    resources = {**({"limits": limits} if limits else {}), "claims": [dict(use) for use in uses]}
    container = {"name": "app", "image": "registry.example/app:1", "resources": resources}
    return name, namespace, {"resourceClaims": by_template(), "containers": [container], **more}


def _manifest(version: str, kind: str, name: str, namespace: str, spec: Any) -> str:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return json.dumps({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}, indent=1) + "\n"
