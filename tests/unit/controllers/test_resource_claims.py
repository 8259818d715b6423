"""The steps of the ResourceClaim controller, as observed in a real control plane."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, PODS
from allotment.controllers.claim_counts import ClaimCounts, CreatedClaim, ExistingClaim
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


def allocated(cluster: World, claim: str, *users: Tree) -> None:
    """Set the status as the scheduler does."""
    cluster.change(
        CLAIMS, claim, metadata={"finalizers": [FINALIZER]},
        status={"allocation": ALLOCATION, "reservedFor": [reserved(user) for user in users]},
    )  # fmt: skip


async def scheduled(cluster: World) -> str:
    """A pod with a generated claim, allocated and bound; the name of the claim."""
    cluster.put(CLAIM_TEMPLATES, TEMPLATE)
    made = cluster.put(PODS, with_template())
    await cluster.until(lambda: "resourceClaimStatuses" in cluster.get(PODS, "p")["status"])
    [name] = cluster.names(CLAIMS)
    allocated(cluster, name, made)
    cluster.change(PODS, "p", spec={**cluster.get(PODS, "p")["spec"], "nodeName": "n1"})
    return name


def test_a_pod_with_a_template_gets_a_claim_of_its_own() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_PODS) as cluster:
            cluster.put(CLAIM_TEMPLATES, TEMPLATE)
            made = cluster.put(PODS, with_template())
            await cluster.until(lambda: cluster.get(PODS, "p")["status"].get("resourceClaimStatuses"))
            [claim] = cluster.all(CLAIMS)
            metadata = claim["metadata"]
            assert metadata["generateName"] == "p-g0-"
            assert metadata["annotations"] == {"note": "n", "resource.kubernetes.io/pod-claim-name": "g0"}
            assert metadata["labels"] == {"team": "a"}
            assert metadata["ownerReferences"] == [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made["metadata"]["uid"], "controller": True}
            ]
            assert claim["spec"] == TEMPLATE["spec"]["spec"]
            assert cluster.get(PODS, "p")["status"]["resourceClaimStatuses"] == [
                {"name": "g0", "resourceClaimName": metadata["name"]}
            ]

    idle.run(scenario())


def test_created_and_existing_claims_are_counted() -> None:
    async def scenario() -> None:
        counts = ClaimCounts()
        async with world(resource_claims(Features("1.37"), counts)) as cluster:
            await scheduled(cluster)
            cluster.put(CLAIMS, {"metadata": {"name": "mine"}, "spec": TEMPLATE["spec"]["spec"]})
            existing = {
                ExistingClaim(allocated=True, admin_access=False, source="resource_claim_template"): 1,
                ExistingClaim(allocated=False, admin_access=False, source=""): 1,
            }
            await cluster.until(lambda: counts.existing() == existing)
            assert counts.created == {CreatedClaim("success", False, "", "Pod"): 1}

    idle.run(scenario())


@pytest.mark.parametrize(("release", "order"), [("1.36", ["b", "a"]), ("1.37", ["a", "b"])])
def test_the_claims_in_a_status_are_sorted_from_1_37(release: str, order: list[str]) -> None:
    async def scenario() -> None:
        async with world(resource_claims(Features(release))) as cluster:
            cluster.put(CLAIM_TEMPLATES, TEMPLATE)
            entries = [{"name": name, "resourceClaimTemplateName": "t"} for name in ("b", "a")]
            cluster.put(PODS, pod("p", spec={"resourceClaims": entries}))
            await cluster.until(lambda: cluster.get(PODS, "p")["status"].get("resourceClaimStatuses"))
            statuses = cluster.get(PODS, "p")["status"]["resourceClaimStatuses"]
            assert [status["name"] for status in statuses] == order

    idle.run(scenario())


def test_a_created_but_unrecorded_claim_is_found_again() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_PODS) as cluster:
            made = cluster.put(PODS, with_template())
            owner = {
                "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made["metadata"]["uid"], "controller": True,
            }  # fmt: skip
            annotations = {"resource.kubernetes.io/pod-claim-name": "g0"}
            cluster.put(CLAIMS, {"metadata": {"name": "found", "ownerReferences": [owner], "annotations": annotations}})
            cluster.put(CLAIM_TEMPLATES, TEMPLATE)
            await cluster.until(lambda: cluster.get(PODS, "p")["status"].get("resourceClaimStatuses"))
            await cluster.settled()
            assert cluster.names(CLAIMS) == ["found"]

    idle.run(scenario())


def test_a_missing_template_is_reported_and_retried() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_PODS) as cluster:
            cluster.put(PODS, with_template(template="absent"))
            await cluster.until(lambda: cluster.events("FailedResourceClaimCreation"))
            [message] = cluster.events("FailedResourceClaimCreation")
            assert message.startswith(
                'PodResourceClaim g0: resource claim template "absent": resourceclaimtemplate.resource.k8s.io "absent" '
                "not found"
            )
            cluster.put(CLAIM_TEMPLATES, {**TEMPLATE, "metadata": {"name": "absent"}})
            await cluster.until(lambda: cluster.names(CLAIMS))

    idle.run(scenario())


def test_a_deleted_pod_releases_its_claim_removes_the_finalizer_and_deletes_it() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_PODS) as cluster:
            name = await scheduled(cluster)
            cluster.remove(PODS, "p")
            await cluster.until(lambda: not cluster.all(CLAIMS))
            seen = [
                (event.type, event.object.get("status"), event.object["metadata"].get("finalizers"))
                for _, resource, event in cluster.client.history
                if resource == CLAIMS and event.object["metadata"]["name"] == name
            ]
            assert seen[-3:] == [("MODIFIED", {}, [FINALIZER]), ("MODIFIED", {}, None), ("DELETED", {}, None)]

    idle.run(scenario())


def test_a_finished_pod_frees_and_deletes_its_claim_and_gets_no_other() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_PODS) as cluster:
            await scheduled(cluster)
            cluster.change(PODS, "p", status={**cluster.get(PODS, "p")["status"], "phase": "Succeeded"})
            await cluster.until(lambda: not cluster.all(CLAIMS))
            await cluster.settled()
            assert cluster.names(CLAIMS) == []

    idle.run(scenario())


def test_a_terminating_bound_pod_keeps_its_claim() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_PODS) as cluster:
            name = await scheduled(cluster)
            cluster.change(PODS, "p", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
            await cluster.settled()
            assert cluster.get(CLAIMS, name)["status"]["allocation"] == ALLOCATION

    idle.run(scenario())


def test_of_two_pods_that_share_a_claim_the_last_frees_it_and_the_claim_stays() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_PODS) as cluster:
            spec = {"resourceClaims": [{"name": "g0", "resourceClaimName": "shared"}]}
            cluster.put(CLAIMS, {"metadata": {"name": "shared"}, "spec": {}, "status": {}})
            pods = [cluster.put(PODS, pod(name, node="n1", spec=spec)) for name in ("a", "b")]
            allocated(cluster, "shared", *pods)
            cluster.remove(PODS, "a")
            await cluster.until(lambda: len(cluster.get(CLAIMS, "shared")["status"]["reservedFor"]) == 1)
            assert cluster.get(CLAIMS, "shared")["status"]["allocation"] == ALLOCATION
            cluster.remove(PODS, "b")
            await cluster.until(lambda: "finalizers" not in cluster.get(CLAIMS, "shared")["metadata"])
            assert cluster.get(CLAIMS, "shared")["status"] == {}

    idle.run(scenario())


def test_a_claim_deleted_in_use_is_removed_after_its_last_user() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_PODS) as cluster:
            spec = {"resourceClaims": [{"name": "g0", "resourceClaimName": "c"}]}
            cluster.put(CLAIMS, {"metadata": {"name": "c"}, "spec": {}, "status": {}})
            allocated(cluster, "c", cluster.put(PODS, pod("p", node="n1", spec=spec)))
            await cluster.client.delete(CLAIMS, "c", "ns")
            await cluster.settled()
            assert cluster.get(CLAIMS, "c")["status"]["allocation"] == ALLOCATION
            cluster.remove(PODS, "p")
            await cluster.until(lambda: not cluster.all(CLAIMS))

    idle.run(scenario())


def test_a_bound_pod_reserves_allocated_claims_and_allocates_none() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_PODS) as cluster:
            other = cluster.put(PODS, pod("other", node="n1"))
            for name in ("free", "taken"):
                cluster.put(CLAIMS, {"metadata": {"name": name}, "spec": {}, "status": {}})
            allocated(cluster, "taken", other)
            entries = [{"name": name, "resourceClaimName": name} for name in ("free", "taken")]
            cluster.put(PODS, pod("p", node="n1", spec={"resourceClaims": entries}))
            await cluster.until(lambda: len(cluster.get(CLAIMS, "taken")["status"]["reservedFor"]) == 2)
            await cluster.settled()
            assert cluster.get(CLAIMS, "free")["status"] == {}

    idle.run(scenario())


def test_consumers_of_other_kinds_keep_a_claim() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_PODS) as cluster:
            users = [{"apiGroup": "example.com", "resource": "things", "name": "x", "uid": "u"}]
            cluster.put(CLAIMS, {"metadata": {"name": "c"}, "status": {"allocation": ALLOCATION, "reservedFor": users}})
            await cluster.settled()
            assert cluster.get(CLAIMS, "c")["status"]["reservedFor"] == users

    idle.run(scenario())


def test_a_pod_recreated_under_its_name_gets_a_fresh_claim() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_PODS) as cluster:
            first = await scheduled(cluster)
            cluster.remove(PODS, "p")
            cluster.put(PODS, with_template())
            await cluster.until(lambda: cluster.names(CLAIMS) and first not in cluster.names(CLAIMS))
            [second] = cluster.names(CLAIMS)
            await cluster.until(
                lambda: (
                    cluster.get(PODS, "p")["status"].get("resourceClaimStatuses")
                    == [{"name": "g0", "resourceClaimName": second}]
                )
            )

    idle.run(scenario())


def test_the_extended_resource_claim_is_deleted_with_its_pod() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_PODS) as cluster:
            made = cluster.put(PODS, pod("p", node="n1", status={"extendedResourceClaimStatus": {
                "resourceClaimName": "p-extended-resources-abcde", "requestMappings": []}}))  # fmt: skip
            owner = {
                "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made["metadata"]["uid"], "controller": True,
            }  # fmt: skip
            cluster.put(CLAIMS, {"metadata": {"name": "p-extended-resources-abcde", "ownerReferences": [owner]}})
            allocated(cluster, "p-extended-resources-abcde", made)
            await cluster.settled()
            cluster.remove(PODS, "p")
            await cluster.until(lambda: not cluster.all(CLAIMS))

    idle.run(scenario())


def made_for(owner: Tree, name: str, **more: Any) -> Tree:
    """A claim generated for an entry of a pod."""
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner["metadata"]["uid"], "controller": True}
    annotations = {"resource.kubernetes.io/pod-claim-name": "g0"}
    return {"metadata": {"name": name, "ownerReferences": [reference], "annotations": annotations}, **more}


def test_a_duplicate_claim_that_the_pod_does_not_name_is_deleted(caplog: pytest.LogCaptureFixture) -> None:
    """Two active controllers are a misconfiguration, which is logged."""

    async def scenario() -> None:
        async with world(CLAIMS_OF_PODS) as cluster:
            cluster.put(CLAIM_TEMPLATES, TEMPLATE)
            owner = cluster.put(PODS, with_template())
            await cluster.until(lambda: cluster.get(PODS, "p")["status"].get("resourceClaimStatuses"))
            [recorded] = cluster.names(CLAIMS)
            cluster.put(CLAIMS, made_for(owner, "another"))
            await cluster.until(lambda: cluster.names(CLAIMS) == [recorded])
            cluster.put(CLAIMS, made_for(owner, "in-use", status={"allocation": ALLOCATION}))
            await cluster.settled()
            assert sorted(cluster.names(CLAIMS)) == sorted(["in-use", recorded])

    idle.run(scenario())
    (message,) = caplog.messages
    assert message.startswith("pod ns/p has two claims for g0, because two controllers generate claims")


def test_an_earlier_claim_is_deleted_when_the_pod_names_another() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_PODS) as cluster:
            owner = cluster.put(PODS, with_template(template="absent"))
            await cluster.until(lambda: cluster.events("FailedResourceClaimCreation"))
            statuses = [{"name": "g0", "resourceClaimName": "recorded"}]
            cluster.put(CLAIMS, made_for(owner, "recorded"))
            cluster.change(PODS, "p", status={"resourceClaimStatuses": statuses})
            cluster.put(CLAIMS, made_for(owner, "another"))
            await cluster.until(lambda: cluster.names(CLAIMS) == ["recorded"])
            await cluster.settled()
            assert cluster.names(CLAIMS) == ["recorded"]
            assert cluster.get(PODS, "p")["status"]["resourceClaimStatuses"] == statuses

    idle.run(scenario())


def test_a_claim_is_spare_when_another_controller_overwrites_the_status() -> None:
    """Also if the pod is observed before that claim."""

    async def scenario() -> None:
        async with world(CLAIMS_OF_PODS) as cluster:
            cluster.put(CLAIM_TEMPLATES, TEMPLATE)
            owner = cluster.put(PODS, with_template())
            await cluster.until(lambda: cluster.get(PODS, "p")["status"].get("resourceClaimStatuses"))
            statuses = [{"name": "g0", "resourceClaimName": "foreign"}]
            cluster.client.objects[CLAIMS, "ns", "foreign"] = {  # stored, but not yet delivered by the watch
                **made_for(owner, "foreign"), "kind": "ResourceClaim", "apiVersion": CLAIMS.api_version,
            }  # fmt: skip
            foreign = cluster.client.objects[CLAIMS, "ns", "foreign"]["metadata"]
            foreign |= {"namespace": "ns", "uid": "uid-foreign", "resourceVersion": "1"}
            cluster.change(PODS, "p", status={"resourceClaimStatuses": statuses})
            await cluster.settled()
            assert len(cluster.names(CLAIMS)) == 2
            cluster.change(CLAIMS, "foreign")
            await cluster.until(lambda: cluster.names(CLAIMS) == ["foreign"])

    idle.run(scenario())


def test_a_claim_recorded_by_another_controller_is_not_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod may already be scheduled with that claim."""

    async def scenario() -> None:
        async with world(CLAIMS_OF_PODS) as cluster:
            owner = cluster.put(PODS, with_template())
            await cluster.settled()
            create = cluster.client.create

            async def slow(resource: Any, tree: Tree, *words: Any, **more: Any) -> Tree:
                if resource == CLAIMS:  # another client was faster
                    cluster.put(CLAIMS, made_for(owner, "foreign"))
                    statuses = [{"name": "g0", "resourceClaimName": "foreign"}]
                    cluster.change(PODS, "p", status={"resourceClaimStatuses": statuses})
                return await create(resource, tree, *words, **more)

            monkeypatch.setattr(cluster.client, "create", slow)
            cluster.put(CLAIM_TEMPLATES, TEMPLATE)
            await cluster.until(lambda: cluster.get(PODS, "p")["status"].get("resourceClaimStatuses"))
            await cluster.until(lambda: cluster.names(CLAIMS) == ["foreign"])
            names = {
                status["resourceClaimName"]
                for _, resource, event in cluster.client.history
                if resource == PODS
                for status in event.object.get("status", {}).get("resourceClaimStatuses") or ()
            }
            assert names == {"foreign"}

    idle.run(scenario())


def test_a_pod_restored_from_a_backup_keeps_its_claim() -> None:
    async def scenario() -> None:
        async with world(CLAIMS_OF_PODS) as cluster:
            name = await scheduled(cluster)
            await cluster.settled()
            restore = cluster.client.backup()
            cluster.remove(PODS, "p")
            await cluster.until(lambda: not cluster.names(CLAIMS))
            cluster.client.silent.add(PODS)  # the claims are restored before the pods
            restore()
            cluster.put(CLAIMS, {"metadata": {"name": "marker"}})
            await cluster.settled(0.3)
            cluster.client.silent.clear()
            await cluster.settled(0.3)
            assert cluster.get(CLAIMS, name)["status"]["allocation"] == ALLOCATION

    idle.run(scenario())
