"""The tables of releases against recordings of a running Kubernetes 1.37.2."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from allotment.model.features import GATES, Features
from allotment.model.releases import RELEASES, SUBRESOURCE_VERBS, VERBS, Gate, release_key, release_table

#: Gates of logging and of programs, which no file that the tables are made from registers.
_NOT_IN_TABLES = {
    "AllAlpha", "AllBeta", "ContextualLogging", "ControllerManagerReleaseLeaderElectionLockOnExit",
    "LoggingAlphaOptions", "LoggingBetaOptions", "NativeHistograms",
}  # fmt: skip
#: Kubernetes registers its gate twice, with two stages.
_TWO_STAGES = "CustomResourceFieldSelectors"


def _documents(shared: Callable[[str], Path], served: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Group, version and discovery document of each version that the recorded server served."""
    with gzip.open(shared(f"vectors/k8s-1.37/apiserver/137-10-discovery-{served}.jsonl.gz"), "rt") as file:
        for row in map(json.loads, file):
            body = row["response"].get("body") or {}
            if body.get("kind") == "APIResourceList":
                group, _, version = body["groupVersion"].rpartition("/")
                yield group, version, body


def test_gates_are_those_of_a_running_server(shared: Callable[[str], Path]) -> None:
    with shared("vectors/k8s-1.37/apiserver/137-13-gates-p1.json").open() as file:
        recorded: dict[str, dict[str, Any]] = json.load(file)
    gates = release_table("1.37").gates
    assert recorded.keys() - gates.keys() == _NOT_IN_TABLES
    assert gates.keys() <= recorded.keys()
    found = {name: (gate.default, gate.stage.upper()) for name, gate in gates.items() if name != _TWO_STAGES}
    assert found == {name: (recorded[name]["on"], recorded[name]["stage"]) for name in found}


def test_versions_served_by_default_are_those_of_a_running_server(shared: Callable[[str], Path]) -> None:
    table = release_table("1.37")
    for served, default_only in (("p1", True), ("p2", False)):
        recorded = {(group, version) for group, version, _ in _documents(shared, served)}
        expected = {
            (group, version)
            for group, versions in table.groups.items()
            for version, entry in versions.items()
            if entry.default or not default_only
        }
        # The recording has all gates of devices and workloads on, not those of other features.
        assert recorded <= expected
        assert {group for group, _ in expected - recorded} <= {
            "lifecycle.k8s.io", "internal.apiserver.k8s.io", "coordination.k8s.io",
        }, expected - recorded  # fmt: skip


def test_resources_are_those_of_a_running_server(shared: Callable[[str], Path]) -> None:
    compared = 0
    for group, version, document in _documents(shared, "p2"):
        resources = release_table("1.37").groups[group][version].resources
        for recorded in document["resources"]:
            known = resources[recorded["name"]]
            usual = SUBRESOURCE_VERBS if "/" in recorded["name"] else VERBS
            assert list(known.verbs or usual) == recorded["verbs"], recorded["name"]
            assert (known.kind, known.namespaced) == (recorded["kind"], recorded["namespaced"])
            assert list(known.short) == recorded.get("shortNames", [])
            if known.storage and "storageVersionHash" in recorded:
                digest = hashlib.sha256(f"{group}/{known.storage}/{known.kind}".encode()).digest()[:8]
                assert base64.b64encode(digest).decode() == recorded["storageVersionHash"], recorded["name"]
            compared += 1
    assert compared > 100


@pytest.mark.parametrize("release", RELEASES)
def test_each_table_has_every_topic(release: str) -> None:
    table = release_table(release)
    assert table.version.startswith(f"v{release}.")
    assert table.groups["resource.k8s.io"]["v1"].default
    assert "v1" in table.plugins["dra"]
    assert any("resourceclaim" in name for name in table.metrics["kube-controller-manager"])
    assert any(name.startswith("dra_") for name in table.metrics["kubelet"])


def test_releases_are_sorted_as_numbers() -> None:
    assert list(RELEASES) == sorted(RELEASES, key=release_key)
    assert sorted(["1.100", "1.37", "1.9"], key=release_key) == ["1.9", "1.37", "1.100"]


def test_gate_that_needs_a_newer_compatibility_version_is_off_by_default() -> None:
    """DRAFractionalCapacityRange reads "on" in 1.37, but asks for a minimum compatibility version of 1.37."""
    assert not Features("1.37").enabled("DRAFractionalCapacityRange")


def test_removed_gates_are_off_and_unknown_to_the_release() -> None:
    assert "1.37" not in GATES["GangScheduling"]
    assert not Features("1.37", {"GangScheduling": True}).enabled("GangScheduling")
    assert GATES["DRAWorkloadResourceClaims"]["1.37"].requires == ("GenericWorkload",)
    assert GATES["DRADeviceTaintRules"]["1.37"][:3] == ("GA", True, False)


def test_unknown_release_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"expected one of 1\.34, 1\.35, 1\.36, 1\.37, found '1\.30'"):
        release_table("1.30")


def test_gate_that_was_removed_as_stable_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GATES, "Stable", {"1.35": Gate("GA", True, True)})
    monkeypatch.setitem(GATES, "Dropped", {"1.35": Gate("Alpha", False)})
    assert [Features(release).enabled("Stable") for release in RELEASES] == [False, True, True, True]
    assert not any(Features(release).enabled("Dropped") for release in RELEASES)
