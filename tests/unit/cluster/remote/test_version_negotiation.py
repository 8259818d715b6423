"""Programs that use v1 in clusters that serve other versions or change the served versions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from allotment.cluster.client import Resource
from allotment.cluster.errors import StatusError, UnknownVersions
from allotment.cluster.remote import version_negotiation
from allotment.cluster.remote.version_negotiation import DeviceApiNotServed, NegotiatingClient, ServedVersions
from allotment.cluster.resources import CLAIMS, POD_GROUPS, PODS, POOL_STATUS_REQUESTS, TAINT_RULES
from allotment.model.trees import Tree
from tests.unit.cluster.memory import MemoryClient, refusal
from tests.unit.cluster.releases import ALL, BY_DEFAULT, ReleaseClient, Served

FLAT = {"name": "r", "deviceClassName": "c"}
CLAIM: Tree = {
    "metadata": {"name": "a", "namespace": "n"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
}


class Older(MemoryClient):
    """A cluster that serves some versions of the device API."""

    def __init__(self, *served: str) -> None:
        super().__init__()
        self.served = served
        self.paths: list[str] = []

    async def read(self, path: str, query: Sequence[tuple[str, str]] = (), accept: str = "") -> Tree:
        self.paths.append(path)
        *_, last = path.split("/")
        if last == "resource.k8s.io":
            if not self.served:
                raise refusal(404, "NotFound")
            return {"versions": [{"version": version} for version in self.served]}
        plurals = ["devicetaintrules"] if last == "v1alpha3" else ["resourceclaims", "resourceslices"]
        return {"resources": [{"name": name} for name in (*plurals, f"{plurals[0]}/status")]}

    async def list(self, resource: Resource, *words: Any, **more: Any) -> Any:
        if resource.group == "resource.k8s.io" and resource.version not in self.served:
            raise refusal(404, "NotFound", "the server could not find the requested resource")
        return await super().list(resource, *words, **more)


def test_requests_use_the_served_version_and_responses_are_converted() -> None:
    async def scenario() -> None:
        cluster = Older("v1beta1", "v1alpha3")
        client = NegotiatingClient(cluster)
        await client.versions.check_device_api()
        served = CLAIMS._replace(version="v1beta1")
        made = await client.create(CLAIMS, CLAIM, "n")
        assert (made["apiVersion"], made["spec"]) == ("resource.k8s.io/v1", CLAIM["spec"])
        stored = cluster.objects[served, "n", "a"]
        assert (stored["apiVersion"], stored["spec"]["devices"]["requests"]) == (served.api_version, [FLAT])
        assert await client.update(CLAIMS, {**made, "status": {"reservedFor": []}}, subresource="status")
        patched = await client.patch(CLAIMS, "a", {"metadata": {"labels": {"x": "y"}}}, "n")
        assert patched == await client.get(CLAIMS, "a", "n")
        assert (patched["kind"], patched["spec"]) == ("ResourceClaim", CLAIM["spec"])
        assert [tree["spec"] for tree in (await client.list(CLAIMS)).items] == [CLAIM["spec"]]
        watch = client.watch(CLAIMS, revision="0")
        assert (await anext(watch)).object == made
        assert (await client.delete(CLAIMS, "a", "n"))["spec"] == CLAIM["spec"]

        rule = await client.create(TAINT_RULES, {"metadata": {"name": "t"}, "spec": {"taint": {"key": "k"}}})
        assert rule["apiVersion"] == "resource.k8s.io/v1"
        assert (TAINT_RULES._replace(version="v1alpha3"), "", "t") in cluster.objects

    asyncio.run(scenario())


def test_a_cluster_that_serves_v1_needs_no_conversion() -> None:
    async def scenario() -> None:
        cluster = Older("v1beta1", "v1")
        client = NegotiatingClient(cluster)
        await client.versions.check_device_api()
        made = await client.create(CLAIMS, CLAIM, "n")
        assert await client.get(CLAIMS, "a", "n") is cluster.objects[CLAIMS, "n", "a"] is made

    asyncio.run(scenario())


def test_discovery_is_read_once_and_only_for_device_kinds() -> None:
    async def scenario() -> None:
        cluster = Older("v1beta2")
        client = NegotiatingClient(cluster)
        await client.list(PODS)
        assert cluster.paths == []
        await asyncio.gather(*(client.list(CLAIMS) for _ in range(3)))
        assert cluster.paths == ["/apis/resource.k8s.io", "/apis/resource.k8s.io/v1beta2"]

    asyncio.run(scenario())


@pytest.mark.parametrize(("served", "found"), [((), "none"), (("v1alpha3",), "v1alpha3")])
def test_a_cluster_without_the_device_api_is_an_error(served: tuple[str, ...], found: str) -> None:
    async def scenario() -> None:
        with pytest.raises(DeviceApiNotServed) as raised:
            await ServedVersions(Older(*served)).check_device_api()
        message = f"expected v1, v1beta2 or v1beta1, found {found}. It is enabled by default since 1.34"
        assert message in str(raised.value)
        assert raised.value.code == 404

    asyncio.run(scenario())


def test_versions_are_negotiated_again_after_an_upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_negotiation, "_DISCOVERY_SECONDS", 0.0)

    async def scenario() -> None:
        cluster = Older("v1beta1")
        client = NegotiatingClient(cluster)
        await client.versions.check_device_api()
        assert (await client.list(CLAIMS)).items == []
        cluster.served = ("v1",)
        await cluster.create(CLAIMS, CLAIM, "n")
        assert len((await client.list(CLAIMS)).items) == 1
        cluster.served = ()
        with pytest.raises(StatusError) as raised:
            await client.list(CLAIMS)
        assert raised.value.code == 404

    asyncio.run(scenario())


def test_a_watch_of_a_removed_version_ends_without_deletions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_negotiation, "_DISCOVERY_SECONDS", 0.0)

    async def scenario() -> None:
        cluster = Older("v1beta1")
        client = NegotiatingClient(cluster)
        await client.versions.check_device_api()
        cluster.served = ("v1",)
        cluster.refuse = [refusal(404, "NotFound")]
        assert [event async for event in client.watch(CLAIMS, revision="0")] == []

    asyncio.run(scenario())


RULE: Tree = {"metadata": {"name": "broken"}, "spec": {"taint": {"key": "broken", "effect": "NoSchedule"}}}
#: A future release that serves kinds only in unknown versions.
LATER: Served = {
    "resource.k8s.io/v1": ("resourceclaims",), "resource.k8s.io/v2": ("devicetaintrules",),
    "resource.k8s.io/v3": ("devicetaintrules",),
}  # fmt: skip
UNKNOWN = (
    "devicetaintrules.resource.k8s.io cannot be read: served only in v2 and v3; this release of Allotment reads v1, "
    "v1beta2 and v1alpha3"
)


@pytest.mark.parametrize(
    ("served", "version"),
    [
        (ALL["1.34"], "v1alpha3"), (ALL["1.35"], "v1alpha3"), (ALL["1.36"], "v1beta2"), (ALL["1.37"], "v1"),
        (BY_DEFAULT["1.37"], "v1"),
    ],
    ids=["1.34 all", "1.35 all", "1.36 all", "1.37 all", "1.37"],
)  # fmt: skip
def test_taint_rules_are_read_and_written_in_the_newest_version_that_a_release_serves(
    served: Served, version: str
) -> None:
    async def scenario() -> None:
        cluster = ReleaseClient(served)
        client = NegotiatingClient(cluster)
        cluster.put(TAINT_RULES._replace(version=version), RULE)
        (rule,) = (await client.list(TAINT_RULES)).items
        assert (rule["apiVersion"], rule["spec"]) == (TAINT_RULES.api_version, RULE["spec"])
        status = {"apiVersion": TAINT_RULES.api_version, "status": {"conditions": []}}
        await client.patch(TAINT_RULES, "broken", status, kind="apply", subresource="status")
        (_, _, event), *_ = reversed(cluster.history)
        assert event.object["apiVersion"] == f"resource.k8s.io/{version}"
        watch = client.watch(TAINT_RULES, revision="0")
        assert (await anext(watch)).object["apiVersion"] == TAINT_RULES.api_version

    asyncio.run(scenario())


@pytest.mark.parametrize("release", ["1.34", "1.35", "1.36"])
def test_a_release_that_serves_no_taint_rules_has_none(release: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        with pytest.raises(StatusError) as raised:
            await NegotiatingClient(ReleaseClient(BY_DEFAULT[release])).list(TAINT_RULES)
        assert raised.value.code == 404

    asyncio.run(scenario())
    assert not caplog.records


def test_a_kind_served_only_in_unknown_versions_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        client = NegotiatingClient(ReleaseClient(LATER))
        calls = (
            lambda: client.list(TAINT_RULES), lambda: client.get(TAINT_RULES, "broken"),
            lambda: client.patch(TAINT_RULES, "broken", {}), lambda: anext(client.watch(TAINT_RULES, revision="0")),
            lambda: client.list(TAINT_RULES),
        )  # fmt: skip
        for call in calls:
            with pytest.raises(UnknownVersions, match=UNKNOWN) as raised:
                await call()
            assert raised.value.code == 406
        assert (await client.list(CLAIMS)).items == []

    asyncio.run(scenario())
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [(logging.WARNING, UNKNOWN)]


def test_claims_in_unknown_versions_are_not_an_empty_list() -> None:
    async def scenario() -> None:
        with pytest.raises(
            UnknownVersions, match=r"resourceclaims\.resource\.k8s\.io cannot be read: served only in v2;"
        ):
            await ServedVersions(ReleaseClient({"resource.k8s.io/v2": ("resourceclaims",)})).check_device_api()

    asyncio.run(scenario())


@pytest.mark.parametrize("release", ["1.36", "1.37"])
def test_pod_groups_are_read_in_the_version_that_a_release_serves(release: str) -> None:
    async def scenario() -> None:
        client = NegotiatingClient(ReleaseClient(ALL[release]))
        assert (await client.list(POD_GROUPS)).items == []
        assert (await client.list(POOL_STATUS_REQUESTS)).items == []

    asyncio.run(scenario())


@pytest.mark.parametrize("release", ["1.34", "1.35"])
def test_older_releases_have_no_pod_groups(release: str) -> None:
    async def scenario() -> None:
        with pytest.raises(StatusError) as raised:
            await NegotiatingClient(ReleaseClient(ALL[release])).get(POD_GROUPS, "g", "n")
        assert raised.value.code == 404

    asyncio.run(scenario())


def test_pod_groups_of_an_old_version_are_converted() -> None:
    """Programs know v1beta1; 1.36 serves v1alpha2, and its garbage collection knows only owners in that version."""

    async def scenario() -> None:
        cluster = ReleaseClient(ALL["1.36"])
        client = NegotiatingClient(cluster)
        spec: Tree = {"schedulingPolicy": {"basic": {}}, "disruptionMode": {"all": {}}}
        group = await client.create(POD_GROUPS, {"metadata": {"name": "g", "namespace": "n"}, "spec": spec})
        assert (group["apiVersion"], group["spec"]) == ("scheduling.k8s.io/v1beta1", spec)
        stored = cluster.objects[POD_GROUPS._replace(version="v1alpha2"), "n", "g"]
        assert stored["spec"]["disruptionMode"] == "PodGroup"
        conditions = [{"type": "PodGroupInitiallyScheduled", "status": "True"}]
        patched = await client.patch(POD_GROUPS, "g", {"status": {"conditions": conditions}}, "n", subresource="status")
        assert patched["status"]["conditions"] == conditions
        stored = cluster.objects[POD_GROUPS._replace(version="v1alpha2"), "n", "g"]
        assert stored["status"]["conditions"][0]["type"] == "PodGroupScheduled"
        owner = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "name": "g", "uid": "u"}
        claim = {**CLAIM, "metadata": {"name": "a", "namespace": "n", "ownerReferences": [owner]}}
        await client.create(CLAIMS, claim)
        [written] = cluster.objects[CLAIMS, "n", "a"]["metadata"]["ownerReferences"]
        assert written["apiVersion"] == "scheduling.k8s.io/v1alpha2"

    asyncio.run(scenario())


def test_a_removed_version_does_not_delete_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """A 404 interpreted as deletion of a PodGroup would free the devices that are reserved for it."""
    monkeypatch.setattr(version_negotiation, "_DISCOVERY_SECONDS", 0.0)

    async def scenario() -> None:
        cluster = ReleaseClient(ALL["1.36"])
        client = NegotiatingClient(cluster)
        group = {"metadata": {"name": "g", "namespace": "n"}}
        cluster.put(POD_GROUPS._replace(version="v1alpha2"), group)
        cluster.put(TAINT_RULES._replace(version="v1beta2"), RULE)
        assert await client.get(POD_GROUPS, "g", "n")
        assert await client.get(TAINT_RULES, "broken")
        cluster.served = BY_DEFAULT["1.37"]
        cluster.put(TAINT_RULES._replace(version="v1"), RULE)
        assert (await client.get(TAINT_RULES, "broken"))["apiVersion"] == TAINT_RULES.api_version
        cluster.served = {"scheduling.k8s.io/v2": ("podgroups",)}
        with pytest.raises(UnknownVersions, match=r"podgroups\..*served only in v2;.*reads v1beta1"):
            await client.get(POD_GROUPS, "g", "n")
        cluster.served = ALL["1.37"]
        cluster.put(POD_GROUPS, group)
        assert await client.get(POD_GROUPS, "g", "n")

    asyncio.run(scenario())


def test_kinds_with_one_known_version_are_not_an_empty_list_either() -> None:
    node_claims = Resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", False)

    async def scenario() -> None:
        with pytest.raises(StatusError) as raised:
            await NegotiatingClient(ReleaseClient(BY_DEFAULT["1.37"])).list(node_claims)
        assert raised.value.code == 404
        older = ReleaseClient({"karpenter.sh/v1beta1": ("nodeclaims",)})
        with pytest.raises(UnknownVersions, match="served only in v1beta1; this release of Allotment reads v1"):
            await NegotiatingClient(older).list(node_claims)

    asyncio.run(scenario())


def test_versions_are_read_again_when_the_next_server_is_upgraded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_negotiation, "_DISCOVERY_SECONDS", 0.0)

    async def scenario() -> None:
        cluster = ReleaseClient(LATER)
        client = NegotiatingClient(cluster)
        with pytest.raises(UnknownVersions):
            await client.list(TAINT_RULES)
        cluster.served = BY_DEFAULT["1.37"]
        assert (await client.list(TAINT_RULES)).items == []

    asyncio.run(scenario())


def test_a_version_removed_during_discovery_serves_no_resources() -> None:
    """One of several servers serves the version; another one answers the request for its resources."""

    class TwoServers(ReleaseClient):
        async def read(self, path: str, query: Sequence[tuple[str, str]] = (), accept: str = "") -> Tree:
            if path.endswith("/v1beta2"):
                raise refusal(404, "NotFound", "the server could not find the requested resource")
            return await super().read(path, query, accept)

    async def scenario() -> None:
        cluster = TwoServers(ALL["1.36"])
        client = NegotiatingClient(cluster)
        cluster.put(TAINT_RULES._replace(version="v1alpha3"), RULE)
        assert len((await client.list(TAINT_RULES)).items) == 1

    asyncio.run(scenario())
