"""A lab serves what a real server of its release serves: groups, versions, kinds, verbs, names, subresources.

With the defaults of the release, and with every feature gate of the recordings and all versions.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import pytest

from allotment import Lab
from allotment.model.trees import Tree
from bench.real_kube import ApiServer, api_server
from tests.kube.releases import changed_gates
from tests.vectors.apiserver.recorded_servers import RecordedServer, recorded_server

_ACCEPT: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
#: Groups that only a lab has: it serves the API of metrics-server itself.
_ADDED: Final = frozenset({"metrics.k8s.io"})
#: Differences on purpose: a lab has no component statuses, which are deprecated; it does not list proxies.
_DIFFERENT: Final = (
    "missing: v1 componentstatuses",
    *(f"v1 {resource} lacks subresource proxy" for resource in ("nodes", "pods", "services")),
)
SERVERS: Final[Mapping[str, Mapping[str, RecordedServer]]] = {
    "1.36": {"default": RecordedServer("1.36"), "everything": recorded_server("10-discovery.jsonl.gz")},
    "1.37": {
        "default": recorded_server("137-10-discovery-p1.jsonl.gz"),
        "everything": recorded_server("137-10-discovery-p2.jsonl.gz"),
    },
}

pytestmark = pytest.mark.every_release


class Served(NamedTuple):
    """A resource in a version."""

    scope: str
    verbs: frozenset[str]
    kind: str
    names: tuple[str, ...]
    categories: frozenset[str]
    subresources: Mapping[str, frozenset[str] | None]


def discovered(tree: Tree) -> dict[str, Served]:
    """The resources of an aggregated discovery document by ``GROUP/VERSION RESOURCE``."""
    found: dict[str, Served] = {}
    for group in tree["items"]:
        name = (group.get("metadata") or {}).get("name") or ""
        if name in _ADDED:
            continue
        for version in group["versions"]:
            for entry in version.get("resources") or ():
                key = f"{name}/{version['version']} {entry['resource']}".lstrip("/")
                found[key] = Served(
                    entry["scope"],
                    frozenset(entry["verbs"]),
                    (entry.get("responseKind") or {}).get("kind", ""),
                    (entry.get("singularResource", ""), *entry.get("shortNames", ())),
                    frozenset(entry.get("categories", ())),
                    {item["subresource"]: frozenset(item["verbs"]) for item in entry.get("subresources") or ()},
                )
    return found


def orders(tree: Tree) -> list[list[str]]:
    """The order of the groups' versions, preferred ones first."""
    return sorted(
        [(group.get("metadata") or {}).get("name") or "", *(version["version"] for version in group["versions"])]
        for group in tree["items"]
        if (group.get("metadata") or {}).get("name") not in _ADDED
    )


@pytest.fixture(scope="module", params=["default", "everything"])
def server(request: pytest.FixtureRequest, release: str) -> RecordedServer:
    return SERVERS[release][request.param]


@pytest.fixture(scope="module")
def real(paths: dict[str, str], server: RecordedServer) -> Iterator[ApiServer]:
    gates, config = changed_gates(server), ",".join(server.runtime_config)
    with api_server(paths, gates=gates, runtime_config=config, durable=False) as running:
        yield running


@pytest.fixture(scope="module")
def lab(server: RecordedServer) -> Iterator[Lab]:
    with Lab(fleet="", kube=server.release, gates=dict(server.gates), runtime_config=server.runtime_config) as running:
        yield running


@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_a_lab_serves_what_the_real_server_serves(real: ApiServer, lab: Lab, path: str) -> None:
    ours, theirs = _read(lab.url, path), _read(real.server.url, path, real)
    expected = _DIFFERENT if path == "/api" else ()
    assert sorted(differences(discovered(ours), discovered(theirs))) == sorted(expected)
    assert orders(ours) == orders(theirs)


def differences(ours: Mapping[str, Served], theirs: Mapping[str, Served]) -> list[str]:
    """What differs, in words."""
    found = [f"missing: {key}" for key in theirs if key not in ours]
    found += [f"only in the lab: {key}" for key in ours if key not in theirs]
    for key in theirs.keys() & ours.keys():
        here, there = ours[key], theirs[key]
        found += [f"{key} lacks subresource {name}" for name in there.subresources if name not in here.subresources]
        here, there = (
            served._replace(subresources={name: served.subresources.get(name) for name in here.subresources})
            for served in (here, there)
        )
        found += [
            f"{key} {field}: {getattr(here, field)}, expected {getattr(there, field)}"
            for field in Served._fields
            if getattr(here, field) != getattr(there, field)
        ]
    return found


def _read(url: str, path: str, real: ApiServer | None = None) -> Any:
    headers = {"Accept": _ACCEPT, **({"Authorization": f"Bearer {real.server.token}"} if real else {})}
    request = urllib.request.Request(f"{url}{path}", headers=headers)
    with urllib.request.urlopen(request, context=real.verified() if real else None, timeout=60) as answer:
        return json.load(answer)
