"""Programs that speak v1 on clusters that have other versions, and on some that change theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from allotment.cluster.client import Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.remote import version_negotiation
from allotment.cluster.remote.version_negotiation import Negotiated, NotServed, Versions
from allotment.cluster.resources import CLAIMS, PODS, TAINT_RULES
from allotment.model.trees import Tree
from tests.unit.cluster.memory import MemoryClient, refusal

FLAT = {"name": "r", "deviceClassName": "c"}
CLAIM: Tree = {
    "metadata": {"name": "a", "namespace": "n"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
}


class Older(MemoryClient):
    """A cluster that serves some versions of devices, and says so."""

    def __init__(self, *served: str) -> None:
        super().__init__()
        self.served = served
        self.asked: list[str] = []

    async def read(self, path: str, query: Sequence[tuple[str, str]] = (), accept: str = "") -> Tree:
        self.asked.append(path)
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


def test_what_goes_out_is_of_the_clusters_version_and_what_comes_back_of_ours() -> None:
    async def story() -> None:
        cluster = Older("v1beta1", "v1alpha3")
        client = Negotiated(cluster)
        await client.versions.ask()
        there = CLAIMS._replace(version="v1beta1")
        made = await client.create(CLAIMS, CLAIM, "n")
        assert (made["apiVersion"], made["spec"]) == ("resource.k8s.io/v1", CLAIM["spec"])
        stored = cluster.objects[there, "n", "a"]
        assert (stored["apiVersion"], stored["spec"]["devices"]["requests"]) == (there.api_version, [FLAT])
        assert await client.update(CLAIMS, {**made, "status": {"reservedFor": []}}, subresource="status")
        patched = await client.patch(CLAIMS, "a", {"metadata": {"labels": {"x": "y"}}}, "n")
        assert patched == await client.get(CLAIMS, "a", "n")
        assert (patched["kind"], patched["spec"]) == ("ResourceClaim", CLAIM["spec"])
        assert [tree["spec"] for tree in (await client.list(CLAIMS)).items] == [CLAIM["spec"]]
        watch = client.watch(CLAIMS, revision="0")
        assert (await anext(watch)).object == made
        assert (await client.delete(CLAIMS, "a", "n"))["spec"] == CLAIM["spec"]

        rule = await client.create(TAINT_RULES, {"metadata": {"name": "t"}, "spec": {"taint": {"key": "k"}}})
        assert rule["apiVersion"] == "resource.k8s.io/v1beta2"
        assert (TAINT_RULES._replace(version="v1alpha3"), "", "t") in cluster.objects

    asyncio.run(story())


def test_a_cluster_that_has_what_programs_speak_is_spoken_to_as_it_is() -> None:
    async def story() -> None:
        cluster = Older("v1beta1", "v1")
        client = Negotiated(cluster)
        await client.versions.ask()
        made = await client.create(CLAIMS, CLAIM, "n")
        assert await client.get(CLAIMS, "a", "n") is cluster.objects[CLAIMS, "n", "a"] is made

    asyncio.run(story())


def test_it_is_asked_once_and_only_by_those_who_want_devices() -> None:
    async def story() -> None:
        cluster = Older("v1beta2")
        client = Negotiated(cluster)
        await client.list(PODS)
        assert cluster.asked == []
        await asyncio.gather(*(client.list(CLAIMS) for _ in range(3)))
        assert cluster.asked == ["/apis/resource.k8s.io", "/apis/resource.k8s.io/v1beta2"]

    asyncio.run(story())


@pytest.mark.parametrize(("served", "found"), [((), "none of it"), (("v1alpha3",), "v1alpha3")])
def test_a_cluster_without_devices_is_told_so(served: tuple[str, ...], found: str) -> None:
    async def story() -> None:
        with pytest.raises(NotServed) as raised:
            await Versions(Older(*served)).ask()
        said = f"wanted v1, v1beta2 or v1beta1, found {found}; it is on by default from 1.34"
        assert said in str(raised.value)
        assert raised.value.code == 404

    asyncio.run(story())


def test_a_cluster_that_is_upgraded_is_understood_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_negotiation, "_ASK_AGAIN_SECONDS", 0.0)

    async def story() -> None:
        cluster = Older("v1beta1")
        client = Negotiated(cluster)
        await client.versions.ask()
        assert (await client.list(CLAIMS)).items == []
        cluster.served = ("v1",)
        await cluster.create(CLAIMS, CLAIM, "n")
        assert len((await client.list(CLAIMS)).items) == 1
        cluster.served = ()
        with pytest.raises(StatusError) as raised:
            await client.list(CLAIMS)
        assert raised.value.code == 404

    asyncio.run(story())


def test_a_watch_of_a_version_that_is_gone_ends_and_forgets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_negotiation, "_ASK_AGAIN_SECONDS", 0.0)

    async def story() -> None:
        cluster = Older("v1beta1")
        client = Negotiated(cluster)
        await client.versions.ask()
        cluster.served = ("v1",)
        cluster.refuse = [refusal(404, "NotFound")]
        assert [event async for event in client.watch(CLAIMS, revision="0")] == []

    asyncio.run(story())
