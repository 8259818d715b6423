"""Resources and versions that a snapshot reads in each release, and unreadable ones."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from allotment.api.explain import kinds_for
from allotment.cluster.client import Resource
from allotment.cluster.inspection.discovery import discover
from allotment.cluster.inspection.server_facts import facts_of
from allotment.cluster.inspection.snapshot import (
    DEVICES,
    PODS,
    Snapshot,
    SnapshotResource,
    served_resources,
    take_snapshot,
)
from tests.unit.cluster.releases import ALL, BY_DEFAULT, ReleaseClient, Served

RULES = SnapshotResource("resource.k8s.io", "devicetaintrules")
READ = "this release of Allotment reads v1, v1beta2 and v1alpha3"


def taken(client: ReleaseClient, *wanted: SnapshotResource) -> Snapshot:
    async def scenario() -> Snapshot:
        return await take_snapshot(client, await discover(client), wanted)

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("releases", "versions"),
    [
        (BY_DEFAULT, {"1.34": [], "1.35": [], "1.36": [], "1.37": ["v1"]}),
        (ALL, {"1.34": ["v1alpha3"], "1.35": ["v1alpha3"], "1.36": ["v1beta2"], "1.37": ["v1"]}),
    ],
    ids=["default", "all"],
)
def test_taint_rules_are_read_in_the_newest_version_that_a_release_serves(
    releases: Mapping[str, Served], versions: Mapping[str, list[str]]
) -> None:
    async def found(release: str) -> list[str]:
        return [
            resource.version
            for resource, _ in served_resources(await discover(ReleaseClient(releases[release])), [RULES])
        ]

    assert {release: asyncio.run(found(release)) for release in releases} == versions


def test_objects_have_the_version_in_which_they_were_read() -> None:
    client = ReleaseClient(BY_DEFAULT["1.37"])
    client.put(Resource("resource.k8s.io", "v1", "devicetaintrules", "", False), {"metadata": {"name": "broken"}})
    (rule,) = taken(client, *DEVICES).objects
    assert (rule["apiVersion"], rule["metadata"]["name"]) == ("resource.k8s.io/v1", "broken")


def test_resources_served_only_in_unknown_versions_are_reported() -> None:
    client = ReleaseClient({**BY_DEFAULT["1.36"], "resource.k8s.io/v2": ("devicetaintrules",)})
    assert taken(client, RULES) == Snapshot([], {"devicetaintrules": f"served only in v2; {READ}"})
    groups = "served only in v2; this release of Allotment reads v1beta1, v1alpha3 and v1alpha2"
    assert taken(ReleaseClient({"scheduling.k8s.io/v2": ("podgroups",)}), *PODS).refused["podgroups"] == groups


def test_facts_contain_the_served_versions_of_changing_kinds() -> None:
    async def scenario() -> dict[str, tuple[str, ...]]:
        client = ReleaseClient(ALL["1.37"])
        return (await facts_of(client, await discover(client), "2026-01-01T00:00:00Z")).served

    found = asyncio.run(scenario())
    assert found["devicetaintrules"] == ("v1", "v1beta2", "v1alpha3")
    assert found["podgroups"] == ("v1beta1", "v1alpha3")
    assert "priorityclasses" not in found


@pytest.mark.parametrize("subject", ["", "pod/chat", "deploy/web"])
def test_pods_are_explained_with_their_groups(subject: str) -> None:
    assert SnapshotResource("scheduling.k8s.io", "podgroups") in kinds_for(subject)
