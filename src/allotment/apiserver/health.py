"""The health, metrics and path index endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from allotment.apiserver.http_messages import Response
from allotment.apiserver.request_options import parse_query
from allotment.apiserver.served_kinds import Catalog
from allotment.apiserver.storage.store import Store
from allotment.model.features import GATES, Features

_PRIVATE: Final = ("cache-control", "no-cache, private")
_TEXT: Final = ("content-type", "text/plain; charset=utf-8")
_NO_SNIFF: Final = ("x-content-type-options", "nosniff")
#: The checks of each probe, with Kubernetes' names.
_CHECKS: Final[Mapping[str, tuple[str, ...]]] = {
    "healthz": ("ping", "log", "etcd"),
    "livez": ("ping", "log", "etcd"),
    "readyz": ("ping", "log", "informer-sync"),
}


def respond(path: str, query: str, catalog: Catalog, store: Store, features: Features) -> Response | None:
    """The response for a path; None if it is not one of these endpoints."""
    steps = path.strip("/").split("/")
    if steps == [""]:
        return Response(200, (_PRIVATE, ("content-type", "application/json")), msgspec.json.encode(_index(catalog)))
    if steps[0] in _CHECKS:
        return _probe(steps, query)
    if steps == ["metrics"]:
        return Response(
            200, (_PRIVATE, ("content-type", "text/plain; version=0.0.4")), _metrics(catalog, store, features)
        )
    return None


def _probe(steps: list[str], query: str) -> Response | None:
    checks = _CHECKS[steps[0]]
    if len(steps) == 2 and steps[1] in checks:
        return Response(200, (_PRIVATE, _TEXT), b"ok")
    if len(steps) > 1:
        return None
    text = "ok"
    if "verbose" in parse_query(query):
        lines = [f"[+]{check} ok" for check in checks]
        text = "\n".join((*lines, f"{steps[0]} check passed", ""))
    return Response(200, (_PRIVATE, _TEXT, _NO_SNIFF), text.encode())


def _index(catalog: Catalog) -> dict[str, Any]:
    versions = {(kind.group, version) for kind in catalog for version in kind.versions}
    paths: set[str] = {"/api", "/apis", "/apis/", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3"}
    paths |= {"/openapi/v3/", "/readyz", "/version"}
    paths |= {f"/{probe}/{check}" for probe, checks in _CHECKS.items() for check in checks}
    for group, version in versions:
        paths |= {f"/apis/{group}", f"/apis/{group}/{version}"} if group else {f"/api/{version}"}
    return {"paths": sorted(paths)}


def _metrics(catalog: Catalog, store: Store, features: Features) -> bytes:
    lines: Iterable[str] = (
        "# HELP apiserver_storage_objects Number of stored objects by resource.",
        "# TYPE apiserver_storage_objects gauge",
        *(
            f'apiserver_storage_objects{{resource="{kind.bucket}"}} {len(store.list(kind.store_bucket))}'
            for kind in catalog
            if "list" in kind.verbs
        ),
        "# HELP allotment_store_revision The newest resourceVersion.",
        "# TYPE allotment_store_revision counter",
        f"allotment_store_revision {store.revision}",
        *_gates(features),
        "",
    )
    return "\n".join(lines).encode()


def _gates(features: Features) -> Iterable[str]:
    """The kubernetes_feature_enabled metric (KEP-3466); the stage of a stable gate is empty."""
    yield "# HELP kubernetes_feature_enabled [BETA] Whether a feature gate is enabled, and its stage."
    yield "# TYPE kubernetes_feature_enabled gauge"
    for name in sorted(GATES):
        if features.kube in GATES[name]:
            stage = GATES[name][features.kube][0].upper().removeprefix("GA")
            yield f'kubernetes_feature_enabled{{name="{name}",stage="{stage}"}} {int(features.enabled(name))}'
