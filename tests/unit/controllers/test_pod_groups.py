"""Claims of PodGroups: created once, recorded in group and pods, kept until the group is deleted."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.cluster.client import Resource
from allotment.cluster.errors import UnknownVersions
from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, POD_GROUPS, PODS, TAINT_RULES
from allotment.controllers.device_taints import device_taints
from allotment.controllers.pod_group_protection import pod_group_protection
from allotment.controllers.resource_claims import resource_claims
from allotment.model import pod_groups
from allotment.model.features import Features
from allotment.model.resource import FINALIZER
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.memory import MemoryClient
from tests.unit.controllers.world import World, pod, world

GATES = {pod_groups.GATE: True, pod_groups.GENERIC: True}
ON = Features("1.37", GATES)
CLAIMS_OF_GROUPS = resource_claims(ON)
SPEC: Tree = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
TEMPLATE: Tree = {"metadata": {"name": "t"}, "spec": {"metadata": {"labels": {"team": "a"}}, "spec": SPEC}}
ALLOCATION: Tree = {"devices": {"results": [{"request": "gpu", "driver": "d", "pool": "n1", "device": "gpu-0"}]}}
ENTRY: Tree = {"name": "gpu", "resourceClaimTemplateName": "t"}


def group(name: str = "g", *entries: Tree, **more: Any) -> Tree:
    return {"metadata": {"name": name, **more}, "spec": {"resourceClaims": list(entries or (ENTRY,))}}


def member(name: str, *entries: Tree, of: str = "g", **more: Any) -> Tree:
    spec = {
        "schedulingGroup": {"podGroupName": of},
        "resourceClaims": list(entries or (ENTRY,)),
        **more.pop("spec", {}),
    }
    return pod(name, spec=spec, **more)


def claim_names(tree: Tree) -> list[str]:
    return [status["resourceClaimName"] for status in (tree.get("status") or {}).get("resourceClaimStatuses", ())]


def reserved(cluster: World, claim: str) -> list[tuple[str, str]]:
    users = cluster.get(CLAIMS, claim)["status"].get("reservedFor") or ()
    return [(user["resource"], user["name"]) for user in users]


def allocated(cluster: World, claim: str, *users: Tree) -> None:
    status = {"allocation": ALLOCATION, "reservedFor": list(users)}
    cluster.change(CLAIMS, claim, metadata={"finalizers": [FINALIZER]}, status=status)


async def with_claim(cluster: World) -> str:
    """Create a group and wait for its claim; return the name of the claim."""
    cluster.put(CLAIM_TEMPLATES, TEMPLATE)
    cluster.put(POD_GROUPS, group())
    await cluster.until(lambda: claim_names(cluster.get(POD_GROUPS, "g")))
    [name] = cluster.names(CLAIMS)
    return name


def test_a_group_has_one_claim_recorded_in_all_its_pods() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_GROUPS) as cluster:
            cluster.put(PODS, member("early"))
            name = await with_claim(cluster)
            cluster.put(PODS, member("late"))
            await cluster.until(
                lambda: all(claim_names(cluster.get(PODS, each)) == [name] for each in ("early", "late"))
            )
            await cluster.settled()
            [claim] = cluster.all(CLAIMS)
            metadata, owner = claim["metadata"], cluster.get(POD_GROUPS, "g")["metadata"]
            assert metadata["generateName"] == "g-gpu-"
            assert metadata["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
            assert metadata["labels"] == {"team": "a"}
            assert metadata["ownerReferences"] == [
                {
                    "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "g", "uid": owner["uid"],
                    "controller": True,
                }
            ]  # fmt: skip
            assert claim["spec"] == SPEC
            assert claim_names(cluster.get(POD_GROUPS, "g")) == [name]

    idle.run(scenario())


def test_the_owner_of_a_claim_has_the_version_of_the_release() -> None:
    async def scenario(release: str) -> str:
        async with world(resource_claims(Features(release, GATES))) as cluster:
            await with_claim(cluster)
            [claim] = cluster.all(CLAIMS)
            version: str = claim["metadata"]["ownerReferences"][0]["apiVersion"]
            return version

    assert idle.run(scenario("1.36")) == "scheduling.k8s.io/v1alpha2"
    assert idle.run(scenario("1.37")) == "scheduling.k8s.io/v1beta1"


def test_pods_of_a_group_without_claims_get_their_own_when_it_exists() -> None:
    async def scenario() -> None:
        async with world(resource_claims(Features("1.37", {pod_groups.GENERIC: True}))) as cluster:
            cluster.put(CLAIM_TEMPLATES, TEMPLATE)
            cluster.put(PODS, member("a"))
            await cluster.settled()
            assert not cluster.names(CLAIMS)
            cluster.put(POD_GROUPS, {"metadata": {"name": "g"}, "spec": {}})
            await cluster.until(lambda: claim_names(cluster.get(PODS, "a")))
            [claim] = cluster.all(CLAIMS)
            assert claim["metadata"]["ownerReferences"][0]["kind"] == "Pod"

    idle.run(scenario())


def test_an_entry_that_differs_from_the_group_s_is_the_pod_s_own() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_GROUPS) as cluster:
            name = await with_claim(cluster)
            cluster.put(CLAIM_TEMPLATES, {**TEMPLATE, "metadata": {"name": "other"}})
            cluster.put(PODS, member("a", ENTRY, {"name": "mine", "resourceClaimTemplateName": "t"}))
            cluster.put(PODS, member("b", {**ENTRY, "resourceClaimTemplateName": "other"}))
            await cluster.until(lambda: len(cluster.names(CLAIMS)) == 3)
            await cluster.settled()
            assert claim_names(cluster.get(PODS, "a"))[0] == name
            assert len({*claim_names(cluster.get(PODS, "a")), *claim_names(cluster.get(PODS, "b"))}) == 3

    idle.run(scenario())


def test_without_the_gate_every_pod_has_its_own() -> None:
    async def scenario() -> None:
        async with world(resource_claims(Features("1.36"))) as cluster:
            cluster.put(CLAIM_TEMPLATES, TEMPLATE)
            cluster.put(POD_GROUPS, group())
            for name in ("a", "b"):
                cluster.put(PODS, member(name))
            await cluster.until(lambda: all(claim_names(cluster.get(PODS, name)) for name in ("a", "b")))
            await cluster.settled()
            assert claim_names(cluster.get(PODS, "a")) != claim_names(cluster.get(PODS, "b"))
            assert not claim_names(cluster.get(POD_GROUPS, "g"))

    idle.run(scenario())


def test_a_pod_waits_for_its_group() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_GROUPS) as cluster:
            cluster.put(CLAIM_TEMPLATES, TEMPLATE)
            cluster.put(PODS, member("a"))
            await cluster.settled()
            assert not cluster.names(CLAIMS)
            cluster.put(POD_GROUPS, group())
            await cluster.until(lambda: claim_names(cluster.get(PODS, "a")))
            assert claim_names(cluster.get(PODS, "a")) == claim_names(cluster.get(POD_GROUPS, "g"))

    idle.run(scenario())


def test_a_missing_template_of_a_group_is_reported_and_retried() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_GROUPS) as cluster:
            cluster.put(POD_GROUPS, group())
            await cluster.until(lambda: cluster.events("FailedResourceClaimCreation"))
            [message] = cluster.events("FailedResourceClaimCreation")
            assert message.startswith('PodGroupResourceClaim gpu: resource claim template "t": ')
            cluster.put(CLAIM_TEMPLATES, TEMPLATE)
            await cluster.until(lambda: claim_names(cluster.get(POD_GROUPS, "g")))

    idle.run(scenario())


def test_a_deleted_claim_is_regenerated_and_recorded_again() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_GROUPS) as cluster:
            name = await with_claim(cluster)
            cluster.put(PODS, member("a"))
            await cluster.until(lambda: claim_names(cluster.get(PODS, "a")) == [name])
            cluster.remove(CLAIMS, name)
            await cluster.until(lambda: claim_names(cluster.get(PODS, "a")) not in ([name], []))
            assert (
                claim_names(cluster.get(PODS, "a"))
                == claim_names(cluster.get(POD_GROUPS, "g"))
                == cluster.names(CLAIMS)
            )

    idle.run(scenario())


def test_a_claim_stays_reserved_until_its_group_is_deleted() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_GROUPS) as cluster:
            name = await with_claim(cluster)
            allocated(cluster, name, pod_groups.consumer_reference(cluster.get(POD_GROUPS, "g")))
            cluster.put(PODS, member("a"))
            await cluster.until(lambda: claim_names(cluster.get(PODS, "a")))
            cluster.remove(PODS, "a")
            await cluster.settled()
            assert reserved(cluster, name) == [("podgroups", "g")]
            cluster.remove(POD_GROUPS, "g")
            await cluster.until(lambda: not cluster.get(CLAIMS, name)["status"])
            await cluster.until(lambda: "finalizers" not in cluster.get(CLAIMS, name)["metadata"])

    idle.run(scenario())


class NewerClient(MemoryClient):
    """A cluster that serves PodGroups only in an unknown version."""

    def _refused(self, resource: Resource | None = None) -> None:
        if resource == POD_GROUPS:
            raise UnknownVersions("podgroups", "served only in v1beta1")
        super()._refused(resource)

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Tree:
        self._refused(resource)
        return await super().get(resource, name, namespace, subresource=subresource)


def test_a_claim_of_a_group_that_cannot_be_read_stays_allocated(caplog: pytest.LogCaptureFixture) -> None:
    """Releasing it would give devices in use to another claim."""

    async def scenario() -> None:
        client = NewerClient()
        owner = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}
        gone = {"resource": "pods", "name": "gone", "uid": "uid-gone"}
        async with world(CLAIMS_OF_GROUPS, client=client) as cluster:
            cluster.put(CLAIMS, {"metadata": {"name": "of-pod"}, "spec": SPEC})
            cluster.put(CLAIMS, {"metadata": {"name": "of-group"}, "spec": SPEC})
            allocated(cluster, "of-group", owner)
            allocated(cluster, "of-pod", gone)
            await cluster.until(lambda: not cluster.get(CLAIMS, "of-pod")["status"].get("reservedFor"))
            await cluster.settled()
            assert reserved(cluster, "of-group") == [("podgroups", "g")]
            assert cluster.get(CLAIMS, "of-group")["status"]["allocation"] == ALLOCATION

    idle.run(scenario())
    assert "served only in v1beta1" not in caplog.text, "the client logs it once"


def test_a_group_of_the_same_name_is_another_user() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_GROUPS) as cluster:
            made = cluster.put(POD_GROUPS, group("g", {"name": "gpu", "resourceClaimName": "shared"}))
            cluster.put(CLAIMS, {"metadata": {"name": "shared"}, "spec": {}, "status": {}})
            user = pod_groups.consumer_reference(made)
            allocated(cluster, "shared", {**user, "uid": "of one that was"}, user)
            await cluster.until(lambda: cluster.get(CLAIMS, "shared")["status"]["reservedFor"] == [user])

    idle.run(scenario())


def test_a_bound_pod_reserves_the_claim_for_its_group() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_GROUPS) as cluster:
            name = await with_claim(cluster)
            cluster.put(CLAIMS, {"metadata": {"name": "mine"}, "spec": {}, "status": {"allocation": ALLOCATION}})
            allocated(cluster, name)
            cluster.put(PODS, member("a", ENTRY, {"name": "m", "resourceClaimName": "mine"}, node="n1"))
            await cluster.until(lambda: reserved(cluster, name) and reserved(cluster, "mine"))
            assert (reserved(cluster, name), reserved(cluster, "mine")) == ([("podgroups", "g")], [("pods", "a")])
            cluster.put(PODS, member("b", node="n1"))
            await cluster.until(lambda: claim_names(cluster.get(PODS, "b")) == [name])
            await cluster.settled()
            assert reserved(cluster, name) == [("podgroups", "g")]

    idle.run(scenario())


# --- deletion of groups ---------------------------------------------------------------------------------------------


def test_a_deleted_group_stays_until_its_last_pod_is_done() -> None:
    async def scenario() -> None:
        async with world(pod_group_protection) as cluster:
            for name in ("g", "empty"):
                cluster.put(POD_GROUPS, group(name, finalizers=[pod_groups.FINALIZER, "mine"]))
            for name in ("a", "b"):
                cluster.put(PODS, member(name))
            for name in ("g", "empty"):
                cluster.change(POD_GROUPS, name, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
            await cluster.until(lambda: cluster.get(POD_GROUPS, "empty")["metadata"]["finalizers"] == ["mine"])
            cluster.remove(PODS, "a")
            await cluster.settled()
            assert cluster.get(POD_GROUPS, "g")["metadata"]["finalizers"] == [pod_groups.FINALIZER, "mine"]
            cluster.change(PODS, "b", status={"phase": "Succeeded"})
            await cluster.until(lambda: cluster.get(POD_GROUPS, "g")["metadata"]["finalizers"] == ["mine"])

    idle.run(scenario())


def test_a_group_that_is_not_deleted_keeps_its_finalizer() -> None:
    async def scenario() -> None:
        async with world(pod_group_protection) as cluster:
            cluster.put(POD_GROUPS, group(finalizers=[pod_groups.FINALIZER]))
            cluster.put(PODS, member("a"))
            await cluster.settled()
            cluster.remove(PODS, "a")
            await cluster.settled()
            assert cluster.get(POD_GROUPS, "g")["metadata"]["finalizers"] == [pod_groups.FINALIZER]

    idle.run(scenario())


# --- evictions from devices -----------------------------------------------------------------------------------------


def test_only_group_pods_that_use_a_tainted_device_are_evicted() -> None:
    async def scenario() -> None:
        async with world(device_taints(ON)) as cluster:
            user = pod_groups.consumer_reference(cluster.put(POD_GROUPS, group()))
            status = {"allocation": ALLOCATION, "reservedFor": [user]}
            cluster.put(CLAIMS, {"metadata": {"name": "c"}, "status": status})
            names = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]}
            for name in ("a", "b"):
                cluster.put(PODS, member(name, node="n1", status=names))
            cluster.put(PODS, member("without", {"name": "x", "resourceClaimName": "other"}, node="n1"))
            cluster.put(PODS, member("elsewhere", of="h", node="n1", status=names))
            taint = {"key": "example.com/unhealthy", "effect": "NoExecute"}
            spec = {"deviceSelector": {"driver": "d"}, "taint": taint}
            cluster.put(TAINT_RULES, {"metadata": {"name": "bad", "generation": 1}, "spec": spec})
            await cluster.until(lambda: cluster.names(PODS) == ["elsewhere", "without"])
            await cluster.settled()
            assert cluster.names(PODS) == ["elsewhere", "without"]

    idle.run(scenario())
