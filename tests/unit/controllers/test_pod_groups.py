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

ON = Features("1.36", {pod_groups.GATE: True})
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


def reserved(here: World, claim: str) -> list[tuple[str, str]]:
    users = here.get(CLAIMS, claim)["status"].get("reservedFor") or ()
    return [(user["resource"], user["name"]) for user in users]


def allocated(here: World, claim: str, *users: Tree) -> None:
    status = {"allocation": ALLOCATION, "reservedFor": list(users)}
    here.change(CLAIMS, claim, metadata={"finalizers": [FINALIZER]}, status=status)


async def with_claim(here: World) -> str:
    """A group whose claim is made; the name of the claim."""
    here.put(CLAIM_TEMPLATES, TEMPLATE)
    here.put(POD_GROUPS, group())
    await here.until(lambda: claim_names(here.get(POD_GROUPS, "g")))
    [name] = here.names(CLAIMS)
    return name


def test_a_group_has_one_claim_recorded_in_all_its_pods() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_GROUPS) as here:
            here.put(PODS, member("early"))
            name = await with_claim(here)
            here.put(PODS, member("late"))
            await here.until(lambda: all(claim_names(here.get(PODS, each)) == [name] for each in ("early", "late")))
            await here.settled()
            [claim] = here.all(CLAIMS)
            metadata, owner = claim["metadata"], here.get(POD_GROUPS, "g")["metadata"]
            assert metadata["generateName"] == "g-gpu-"
            assert metadata["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
            assert metadata["labels"] == {"team": "a"}
            assert metadata["ownerReferences"] == [
                {
                    "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": "g", "uid": owner["uid"],
                    "controller": True,
                }
            ]  # fmt: skip
            assert claim["spec"] == SPEC
            assert claim_names(here.get(POD_GROUPS, "g")) == [name]

    idle.run(story())


def test_an_entry_that_differs_from_the_group_s_is_the_pod_s_own() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_GROUPS) as here:
            name = await with_claim(here)
            here.put(CLAIM_TEMPLATES, {**TEMPLATE, "metadata": {"name": "other"}})
            here.put(PODS, member("a", ENTRY, {"name": "mine", "resourceClaimTemplateName": "t"}))
            here.put(PODS, member("b", {**ENTRY, "resourceClaimTemplateName": "other"}))
            await here.until(lambda: len(here.names(CLAIMS)) == 3)
            await here.settled()
            assert claim_names(here.get(PODS, "a"))[0] == name
            assert len({*claim_names(here.get(PODS, "a")), *claim_names(here.get(PODS, "b"))}) == 3

    idle.run(story())


def test_without_the_gate_every_pod_has_its_own() -> None:
    async def story() -> None:
        async with world(resource_claims(Features("1.36"))) as here:
            here.put(CLAIM_TEMPLATES, TEMPLATE)
            here.put(POD_GROUPS, group())
            for name in ("a", "b"):
                here.put(PODS, member(name))
            await here.until(lambda: all(claim_names(here.get(PODS, name)) for name in ("a", "b")))
            await here.settled()
            assert claim_names(here.get(PODS, "a")) != claim_names(here.get(PODS, "b"))
            assert not claim_names(here.get(POD_GROUPS, "g"))

    idle.run(story())


def test_a_pod_waits_for_its_group() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_GROUPS) as here:
            here.put(CLAIM_TEMPLATES, TEMPLATE)
            here.put(PODS, member("a"))
            await here.settled()
            assert not here.names(CLAIMS)
            here.put(POD_GROUPS, group())
            await here.until(lambda: claim_names(here.get(PODS, "a")))
            assert claim_names(here.get(PODS, "a")) == claim_names(here.get(POD_GROUPS, "g"))

    idle.run(story())


def test_a_missing_template_of_a_group_is_reported_and_retried() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_GROUPS) as here:
            here.put(POD_GROUPS, group())
            await here.until(lambda: here.events("FailedResourceClaimCreation"))
            [message] = here.events("FailedResourceClaimCreation")
            assert message.startswith('PodGroupResourceClaim gpu: resource claim template "t": ')
            here.put(CLAIM_TEMPLATES, TEMPLATE)
            await here.until(lambda: claim_names(here.get(POD_GROUPS, "g")))

    idle.run(story())


def test_a_deleted_claim_is_regenerated_and_recorded_again() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_GROUPS) as here:
            name = await with_claim(here)
            here.put(PODS, member("a"))
            await here.until(lambda: claim_names(here.get(PODS, "a")) == [name])
            here.remove(CLAIMS, name)
            await here.until(lambda: claim_names(here.get(PODS, "a")) not in ([name], []))
            assert claim_names(here.get(PODS, "a")) == claim_names(here.get(POD_GROUPS, "g")) == here.names(CLAIMS)

    idle.run(story())


def test_a_claim_stays_reserved_until_its_group_is_deleted() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_GROUPS) as here:
            name = await with_claim(here)
            allocated(here, name, pod_groups.consumer_reference(here.get(POD_GROUPS, "g")))
            here.put(PODS, member("a"))
            await here.until(lambda: claim_names(here.get(PODS, "a")))
            here.remove(PODS, "a")
            await here.settled()
            assert reserved(here, name) == [("podgroups", "g")]
            here.remove(POD_GROUPS, "g")
            await here.until(lambda: not here.get(CLAIMS, name)["status"])
            await here.until(lambda: "finalizers" not in here.get(CLAIMS, name)["metadata"])

    idle.run(story())


class NewerClient(MemoryClient):
    """A cluster that serves PodGroups only in an unknown version."""

    def _refused(self, told: Resource | None = None) -> None:
        if told == POD_GROUPS:
            raise UnknownVersions("podgroups", "served only in v1beta1")
        super()._refused(told)

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Tree:
        self._refused(resource)
        return await super().get(resource, name, namespace, subresource=subresource)


def test_a_claim_of_a_group_that_cannot_be_read_stays_allocated(caplog: pytest.LogCaptureFixture) -> None:
    """Releasing it would give devices in use to another claim."""

    async def story() -> None:
        client = NewerClient()
        owner = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}
        gone = {"resource": "pods", "name": "gone", "uid": "uid-gone"}
        async with world(CLAIMS_OF_GROUPS, client=client) as here:
            here.put(CLAIMS, {"metadata": {"name": "of-pod"}, "spec": SPEC})
            here.put(CLAIMS, {"metadata": {"name": "of-group"}, "spec": SPEC})
            allocated(here, "of-group", owner)
            allocated(here, "of-pod", gone)
            await here.until(lambda: not here.get(CLAIMS, "of-pod")["status"].get("reservedFor"))
            await here.settled()
            assert reserved(here, "of-group") == [("podgroups", "g")]
            assert here.get(CLAIMS, "of-group")["status"]["allocation"] == ALLOCATION

    idle.run(story())
    assert "served only in v1beta1" not in caplog.text, "the client logs it once"


def test_a_group_of_the_same_name_is_another_user() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_GROUPS) as here:
            made = here.put(POD_GROUPS, group("g", {"name": "gpu", "resourceClaimName": "shared"}))
            here.put(CLAIMS, {"metadata": {"name": "shared"}, "spec": {}, "status": {}})
            user = pod_groups.consumer_reference(made)
            allocated(here, "shared", {**user, "uid": "of one that was"}, user)
            await here.until(lambda: here.get(CLAIMS, "shared")["status"]["reservedFor"] == [user])

    idle.run(story())


def test_a_bound_pod_reserves_the_claim_for_its_group() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_GROUPS) as here:
            name = await with_claim(here)
            here.put(CLAIMS, {"metadata": {"name": "mine"}, "spec": {}, "status": {"allocation": ALLOCATION}})
            allocated(here, name)
            here.put(PODS, member("a", ENTRY, {"name": "m", "resourceClaimName": "mine"}, node="n1"))
            await here.until(lambda: reserved(here, name) and reserved(here, "mine"))
            assert (reserved(here, name), reserved(here, "mine")) == ([("podgroups", "g")], [("pods", "a")])
            here.put(PODS, member("b", node="n1"))
            await here.until(lambda: claim_names(here.get(PODS, "b")) == [name])
            await here.settled()
            assert reserved(here, name) == [("podgroups", "g")]

    idle.run(story())


# --- a group that is to go ------------------------------------------------------------------------------------------


def test_a_deleted_group_stays_until_its_last_pod_is_done() -> None:
    async def story() -> None:
        async with world(pod_group_protection) as here:
            for name in ("g", "empty"):
                here.put(POD_GROUPS, group(name, finalizers=[pod_groups.FINALIZER, "mine"]))
            for name in ("a", "b"):
                here.put(PODS, member(name))
            for name in ("g", "empty"):
                here.change(POD_GROUPS, name, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
            await here.until(lambda: here.get(POD_GROUPS, "empty")["metadata"]["finalizers"] == ["mine"])
            here.remove(PODS, "a")
            await here.settled()
            assert here.get(POD_GROUPS, "g")["metadata"]["finalizers"] == [pod_groups.FINALIZER, "mine"]
            here.change(PODS, "b", status={"phase": "Succeeded"})
            await here.until(lambda: here.get(POD_GROUPS, "g")["metadata"]["finalizers"] == ["mine"])

    idle.run(story())


def test_a_group_that_is_not_deleted_keeps_its_finalizer() -> None:
    async def story() -> None:
        async with world(pod_group_protection) as here:
            here.put(POD_GROUPS, group(finalizers=[pod_groups.FINALIZER]))
            here.put(PODS, member("a"))
            await here.settled()
            here.remove(PODS, "a")
            await here.settled()
            assert here.get(POD_GROUPS, "g")["metadata"]["finalizers"] == [pod_groups.FINALIZER]

    idle.run(story())


# --- devices that are to be left ------------------------------------------------------------------------------------


def test_only_group_pods_that_use_a_tainted_device_are_evicted() -> None:
    async def story() -> None:
        async with world(device_taints(ON)) as here:
            user = pod_groups.consumer_reference(here.put(POD_GROUPS, group()))
            status = {"allocation": ALLOCATION, "reservedFor": [user]}
            here.put(CLAIMS, {"metadata": {"name": "c"}, "status": status})
            names = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]}
            for name in ("a", "b"):
                here.put(PODS, member(name, node="n1", status=names))
            here.put(PODS, member("without", {"name": "x", "resourceClaimName": "other"}, node="n1"))
            here.put(PODS, member("elsewhere", of="h", node="n1", status=names))
            taint = {"key": "example.com/unhealthy", "effect": "NoExecute"}
            spec = {"deviceSelector": {"driver": "d"}, "taint": taint}
            here.put(TAINT_RULES, {"metadata": {"name": "bad", "generation": 1}, "spec": spec})
            await here.until(lambda: here.names(PODS) == ["elsewhere", "without"])
            await here.settled()
            assert here.names(PODS) == ["elsewhere", "without"]

    idle.run(story())
