"""The steps of the ResourceClaim controller, as observed in a real control plane."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, PODS
from allotment.controllers.resource_claims import resource_claims
from allotment.model.features import Features
from allotment.model.resource import FINALIZER
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.controllers.world import World, pod, world

CLAIMS_OF_PODS = resource_claims(Features("1.36"))
TEMPLATE: Tree = {
    "metadata": {"name": "t"},
    "spec": {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "n"}},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}},
    },
}
ALLOCATION: Tree = {"devices": {"results": [{"request": "gpu", "driver": "d", "pool": "n1", "device": "gpu-0"}]}}


def with_template(name: str = "p", template: str = "t", **more: Any) -> Tree:
    return pod(name, spec={"resourceClaims": [{"name": "g0", "resourceClaimTemplateName": template}]}, **more)


def reserved(tree: Tree) -> Tree:
    return {"resource": "pods", "name": tree["metadata"]["name"], "uid": tree["metadata"]["uid"]}


def allocated(here: World, claim: str, *users: Tree) -> None:
    """As the scheduler leaves it."""
    here.change(
        CLAIMS, claim, metadata={"finalizers": [FINALIZER]},
        status={"allocation": ALLOCATION, "reservedFor": [reserved(user) for user in users]},
    )  # fmt: skip


async def scheduled(here: World) -> str:
    """A pod with a generated claim, allocated and bound; the name of the claim."""
    here.put(CLAIM_TEMPLATES, TEMPLATE)
    made = here.put(PODS, with_template())
    await here.until(lambda: "resourceClaimStatuses" in here.get(PODS, "p")["status"])
    [name] = here.names(CLAIMS)
    allocated(here, name, made)
    here.change(PODS, "p", spec={**here.get(PODS, "p")["spec"], "nodeName": "n1"})
    return name


def test_a_pod_with_a_template_gets_a_claim_of_its_own() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_PODS) as here:
            here.put(CLAIM_TEMPLATES, TEMPLATE)
            made = here.put(PODS, with_template())
            await here.until(lambda: here.get(PODS, "p")["status"].get("resourceClaimStatuses"))
            [claim] = here.all(CLAIMS)
            metadata = claim["metadata"]
            assert metadata["generateName"] == "p-g0-"
            assert metadata["annotations"] == {"note": "n", "resource.kubernetes.io/pod-claim-name": "g0"}
            assert metadata["labels"] == {"team": "a"}
            assert metadata["ownerReferences"] == [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made["metadata"]["uid"], "controller": True}
            ]
            assert claim["spec"] == TEMPLATE["spec"]["spec"]
            assert here.get(PODS, "p")["status"]["resourceClaimStatuses"] == [
                {"name": "g0", "resourceClaimName": metadata["name"]}
            ]

    idle.run(story())


def test_a_created_but_unrecorded_claim_is_found_again() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_PODS) as here:
            made = here.put(PODS, with_template())
            owner = {
                "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made["metadata"]["uid"], "controller": True,
            }  # fmt: skip
            annotations = {"resource.kubernetes.io/pod-claim-name": "g0"}
            here.put(CLAIMS, {"metadata": {"name": "found", "ownerReferences": [owner], "annotations": annotations}})
            here.put(CLAIM_TEMPLATES, TEMPLATE)
            await here.until(lambda: here.get(PODS, "p")["status"].get("resourceClaimStatuses"))
            await here.settled()
            assert here.names(CLAIMS) == ["found"]

    idle.run(story())


def test_a_missing_template_is_reported_and_retried() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_PODS) as here:
            here.put(PODS, with_template(template="absent"))
            await here.until(lambda: here.events("FailedResourceClaimCreation"))
            [message] = here.events("FailedResourceClaimCreation")
            assert message.startswith('PodResourceClaim g0: resource claim template "absent": ')
            here.put(CLAIM_TEMPLATES, {**TEMPLATE, "metadata": {"name": "absent"}})
            await here.until(lambda: here.names(CLAIMS))

    idle.run(story())


def test_a_deleted_pod_releases_its_claim_removes_the_finalizer_and_deletes_it() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_PODS) as here:
            name = await scheduled(here)
            here.remove(PODS, "p")
            await here.until(lambda: not here.all(CLAIMS))
            seen = [
                (event.type, event.object.get("status"), event.object["metadata"].get("finalizers"))
                for _, resource, event in here.client.history
                if resource == CLAIMS and event.object["metadata"]["name"] == name
            ]
            assert seen[-3:] == [("MODIFIED", {}, [FINALIZER]), ("MODIFIED", {}, None), ("DELETED", {}, None)]

    idle.run(story())


def test_a_finished_pod_frees_and_deletes_its_claim_and_gets_no_other() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_PODS) as here:
            await scheduled(here)
            here.change(PODS, "p", status={**here.get(PODS, "p")["status"], "phase": "Succeeded"})
            await here.until(lambda: not here.all(CLAIMS))
            await here.settled()
            assert here.names(CLAIMS) == []

    idle.run(story())


def test_a_terminating_bound_pod_keeps_its_claim() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_PODS) as here:
            name = await scheduled(here)
            here.change(PODS, "p", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
            await here.settled()
            assert here.get(CLAIMS, name)["status"]["allocation"] == ALLOCATION

    idle.run(story())


def test_of_two_pods_that_share_a_claim_the_last_frees_it_and_the_claim_stays() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_PODS) as here:
            spec = {"resourceClaims": [{"name": "g0", "resourceClaimName": "shared"}]}
            here.put(CLAIMS, {"metadata": {"name": "shared"}, "spec": {}, "status": {}})
            pods = [here.put(PODS, pod(name, node="n1", spec=spec)) for name in ("a", "b")]
            allocated(here, "shared", *pods)
            here.remove(PODS, "a")
            await here.until(lambda: len(here.get(CLAIMS, "shared")["status"]["reservedFor"]) == 1)
            assert here.get(CLAIMS, "shared")["status"]["allocation"] == ALLOCATION
            here.remove(PODS, "b")
            await here.until(lambda: "finalizers" not in here.get(CLAIMS, "shared")["metadata"])
            assert here.get(CLAIMS, "shared")["status"] == {}

    idle.run(story())


def test_a_claim_deleted_in_use_is_removed_after_its_last_user() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_PODS) as here:
            spec = {"resourceClaims": [{"name": "g0", "resourceClaimName": "c"}]}
            here.put(CLAIMS, {"metadata": {"name": "c"}, "spec": {}, "status": {}})
            allocated(here, "c", here.put(PODS, pod("p", node="n1", spec=spec)))
            await here.client.delete(CLAIMS, "c", "ns")
            await here.settled()
            assert here.get(CLAIMS, "c")["status"]["allocation"] == ALLOCATION
            here.remove(PODS, "p")
            await here.until(lambda: not here.all(CLAIMS))

    idle.run(story())


def test_a_bound_pod_reserves_allocated_claims_and_allocates_none() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_PODS) as here:
            other = here.put(PODS, pod("other", node="n1"))
            for name in ("free", "taken"):
                here.put(CLAIMS, {"metadata": {"name": name}, "spec": {}, "status": {}})
            allocated(here, "taken", other)
            entries = [{"name": name, "resourceClaimName": name} for name in ("free", "taken")]
            here.put(PODS, pod("p", node="n1", spec={"resourceClaims": entries}))
            await here.until(lambda: len(here.get(CLAIMS, "taken")["status"]["reservedFor"]) == 2)
            await here.settled()
            assert here.get(CLAIMS, "free")["status"] == {}

    idle.run(story())


def test_consumers_of_other_kinds_keep_a_claim() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_PODS) as here:
            users = [{"apiGroup": "example.com", "resource": "things", "name": "x", "uid": "u"}]
            here.put(CLAIMS, {"metadata": {"name": "c"}, "status": {"allocation": ALLOCATION, "reservedFor": users}})
            await here.settled()
            assert here.get(CLAIMS, "c")["status"]["reservedFor"] == users

    idle.run(story())


def test_a_pod_recreated_under_its_name_gets_a_fresh_claim() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_PODS) as here:
            first = await scheduled(here)
            here.remove(PODS, "p")
            here.put(PODS, with_template())
            await here.until(lambda: here.names(CLAIMS) and first not in here.names(CLAIMS))
            [second] = here.names(CLAIMS)
            await here.until(
                lambda: (
                    here.get(PODS, "p")["status"].get("resourceClaimStatuses")
                    == [{"name": "g0", "resourceClaimName": second}]
                )
            )

    idle.run(story())


def test_the_extended_resource_claim_is_deleted_with_its_pod() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_PODS) as here:
            made = here.put(PODS, pod("p", node="n1", status={"extendedResourceClaimStatus": {
                "resourceClaimName": "p-extended-resources-abcde", "requestMappings": []}}))  # fmt: skip
            owner = {
                "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made["metadata"]["uid"], "controller": True,
            }  # fmt: skip
            here.put(CLAIMS, {"metadata": {"name": "p-extended-resources-abcde", "ownerReferences": [owner]}})
            allocated(here, "p-extended-resources-abcde", made)
            await here.settled()
            here.remove(PODS, "p")
            await here.until(lambda: not here.all(CLAIMS))

    idle.run(story())


def made_for(owner: Tree, name: str, **more: Any) -> Tree:
    """A claim generated for an entry of a pod."""
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner["metadata"]["uid"], "controller": True}
    annotations = {"resource.kubernetes.io/pod-claim-name": "g0"}
    return {"metadata": {"name": name, "ownerReferences": [reference], "annotations": annotations}, **more}


def test_a_duplicate_claim_that_the_pod_does_not_name_is_deleted(caplog: pytest.LogCaptureFixture) -> None:
    """Two active controllers are a misconfiguration, which is logged."""

    async def story() -> None:
        async with world(CLAIMS_OF_PODS) as here:
            here.put(CLAIM_TEMPLATES, TEMPLATE)
            owner = here.put(PODS, with_template())
            await here.until(lambda: here.get(PODS, "p")["status"].get("resourceClaimStatuses"))
            [recorded] = here.names(CLAIMS)
            here.put(CLAIMS, made_for(owner, "another"))
            await here.until(lambda: here.names(CLAIMS) == [recorded])
            here.put(CLAIMS, made_for(owner, "in-use", status={"allocation": ALLOCATION}))
            await here.settled()
            assert sorted(here.names(CLAIMS)) == sorted(["in-use", recorded])

    idle.run(story())
    (message,) = caplog.messages
    assert message.startswith("pod ns/p has two claims for g0, because two controllers generate claims")


def test_an_earlier_claim_is_deleted_when_the_pod_names_another() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_PODS) as here:
            owner = here.put(PODS, with_template(template="absent"))
            await here.until(lambda: here.events("FailedResourceClaimCreation"))
            statuses = [{"name": "g0", "resourceClaimName": "recorded"}]
            here.put(CLAIMS, made_for(owner, "recorded"))
            here.change(PODS, "p", status={"resourceClaimStatuses": statuses})
            here.put(CLAIMS, made_for(owner, "another"))
            await here.until(lambda: here.names(CLAIMS) == ["recorded"])
            await here.settled()
            assert here.names(CLAIMS) == ["recorded"]
            assert here.get(PODS, "p")["status"]["resourceClaimStatuses"] == statuses

    idle.run(story())


def test_a_claim_is_spare_when_another_controller_overwrites_the_status() -> None:
    """Also if the pod is observed before that claim."""

    async def story() -> None:
        async with world(CLAIMS_OF_PODS) as here:
            here.put(CLAIM_TEMPLATES, TEMPLATE)
            owner = here.put(PODS, with_template())
            await here.until(lambda: here.get(PODS, "p")["status"].get("resourceClaimStatuses"))
            statuses = [{"name": "g0", "resourceClaimName": "foreign"}]
            here.client.objects[CLAIMS, "ns", "foreign"] = {  # stored, but not yet delivered by the watch
                **made_for(owner, "foreign"), "kind": "ResourceClaim", "apiVersion": CLAIMS.api_version,
            }  # fmt: skip
            foreign = here.client.objects[CLAIMS, "ns", "foreign"]["metadata"]
            foreign |= {"namespace": "ns", "uid": "uid-foreign", "resourceVersion": "1"}
            here.change(PODS, "p", status={"resourceClaimStatuses": statuses})
            await here.settled()
            assert len(here.names(CLAIMS)) == 2
            here.change(CLAIMS, "foreign")
            await here.until(lambda: here.names(CLAIMS) == ["foreign"])

    idle.run(story())


def test_a_claim_recorded_by_another_controller_is_not_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod may already be scheduled with that claim."""

    async def story() -> None:
        async with world(CLAIMS_OF_PODS) as here:
            owner = here.put(PODS, with_template())
            await here.settled()
            create = here.client.create

            async def slow(resource: Any, tree: Tree, *words: Any, **more: Any) -> Tree:
                if resource == CLAIMS:  # another was faster
                    here.put(CLAIMS, made_for(owner, "foreign"))
                    statuses = [{"name": "g0", "resourceClaimName": "foreign"}]
                    here.change(PODS, "p", status={"resourceClaimStatuses": statuses})
                return await create(resource, tree, *words, **more)

            monkeypatch.setattr(here.client, "create", slow)
            here.put(CLAIM_TEMPLATES, TEMPLATE)
            await here.until(lambda: here.get(PODS, "p")["status"].get("resourceClaimStatuses"))
            await here.until(lambda: here.names(CLAIMS) == ["foreign"])
            names = {
                status["resourceClaimName"]
                for _, resource, event in here.client.history
                if resource == PODS
                for status in event.object.get("status", {}).get("resourceClaimStatuses") or ()
            }
            assert names == {"foreign"}

    idle.run(story())


def test_a_pod_restored_from_a_backup_keeps_its_claim() -> None:
    async def story() -> None:
        async with world(CLAIMS_OF_PODS) as here:
            name = await scheduled(here)
            await here.settled()
            restore = here.client.backup()
            here.remove(PODS, "p")
            await here.until(lambda: not here.names(CLAIMS))
            here.client.silent.add(PODS)  # the claims are back before the pods are
            restore()
            here.put(CLAIMS, {"metadata": {"name": "marker"}})
            await here.settled(0.3)
            here.client.silent.clear()
            await here.settled(0.3)
            assert here.get(CLAIMS, name)["status"]["allocation"] == ALLOCATION

    idle.run(story())
