"""The plugin for Headlamp: small, pinned, and in agreement with what ``allot web`` answers.

``make headlamp`` checks its types and runs its own tests, in which answers are fixed.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from allotment.api.cluster import Cluster
from allotment.model.meta import Value
from allotment.screens.device_map import device_map
from allotment.screens.header import encoded
from allotment.screens.object_page import object_page
from allotment.screens.pending import pending, pending_detail
from allotment.tools.free import STATES
from allotment.watched.cluster import WatchedCluster
from allotment.watched.view import ClusterView
from tests.packaging.helm import ROOT

FOLDER = ROOT / "headlamp"
MIXED = ROOT / "tests" / "corpus" / "mixed"


@pytest.fixture(scope="module")
def view() -> ClusterView:
    """A cluster with a pod that does not fit, and pods that have their devices."""
    return WatchedCluster.of(Cluster.snapshot(MIXED / "admin-access-not-allowed-beside-full-nodes.yaml")).view()


def json_of(value: Value) -> Any:
    return json.loads(encoded(value))


def fields_of(name: str) -> set[str]:
    """The fields of an interface in the plugin that are not optional."""
    forms = (rf"export interface {name} \{{\n(.*?)\n\}}", rf"export type {name} = \{{ (.*?) \}};")
    found = next(filter(None, (re.search(form, _types(), re.DOTALL) for form in forms)))
    text = re.sub(r"\{[^{}]*\}", "", found[1])  # without those of inner objects
    return set(re.findall(r"(?:^|[;\s])(\w+):", text))


def _types() -> str:
    return (FOLDER / "src" / "answers.ts").read_text()


def test_the_plugin_stays_thin() -> None:
    assert sum(len(path.read_text().splitlines()) for path in (FOLDER / "src").iterdir()) <= 300


def test_all_packages_are_pinned_with_hashes() -> None:
    manifest, lock = (json.loads((FOLDER / name).read_text()) for name in ("package.json", "package-lock.json"))
    assert manifest["devDependencies"] == {"@kinvolk/headlamp-plugin": "0.14.0"}
    assert "dependencies" not in manifest
    packages = {path: package for path, package in lock["packages"].items() if path and not package.get("inBundle")}
    assert packages["node_modules/@kinvolk/headlamp-plugin"]["version"] == "0.14.0"
    for path, package in packages.items():
        assert package["integrity"].startswith("sha512-"), path
        # Without an address, npm uses the registry that it is configured for.
        assert package.get("resolved", "https://registry.npmjs.org/").startswith("https://registry.npmjs.org/"), path


def test_the_plugin_contains_no_foreign_address() -> None:
    for path in (FOLDER / "src").iterdir():
        assert set(re.findall(r"https?://[\w.-]+", path.read_text())) <= {"http://127.0.0.1"}, path


def test_the_page_of_a_pending_pod_has_what_the_plugin_reads(view: ClusterView) -> None:
    (group,) = pending(view).groups
    namespace, _, name = group.first.partition("/")
    page = json_of(object_page(view, "pod", namespace, name))
    assert fields_of("ObjectPage") <= page.keys()
    assert page["group"] == group.id
    for relation in (*page.get("refersTo", ()), *page.get("referredBy", ())):
        assert {"relation", "kind", "name"} <= relation.keys()


def test_a_group_of_pending_pods_has_what_the_plugin_reads(view: ClusterView) -> None:
    (group,) = pending(view).groups
    detail = json_of(pending_detail(view, group.id))
    assert {"code", "summary", "count"} <= detail["group"].keys()
    assert detail["remedies"]
    assert all("texts" in remedy for remedy in detail["remedies"])


def test_the_map_has_what_the_plugin_reads(view: ClusterView) -> None:
    shown = json_of(device_map(view, names=("node-a",)))
    (node,) = shown["nodes"]
    for device in shown["layouts"][node["layout"]]["devices"]:
        assert fields_of("Placed") <= device.keys()
        assert {"driver", "product"} <= shown["kinds"][device["kind"]].keys()
    assert all(fields_of("Use") <= device.keys() for device in node["devices"])
    assert set(node["states"]) <= set(STATES)
    assert all({"claim", "namespace"} <= holder.keys() for holder in shown["holders"])
    assert any(device["holders"] for device in node["devices"])


def test_the_address_of_a_workload_is_that_of_its_page() -> None:
    cluster = Cluster.snapshot(ROOT / "src" / "allotment" / "examples" / "01-one-ampere-gpu.yaml")
    found = WatchedCluster.of(cluster).view()
    assert object_page(found, "workload", "default", "Deployment/chat").kind == "workload"
    assert "path('objects', 'workload', namespace, kind, name)" in (FOLDER / "src" / "sections.tsx").read_text()
