"""The Workload and the PodGroup that a Job gets with the gate WorkloadWithJob."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.resources import JOBS, POD_GROUPS, PODS, WORKLOADS
from allotment.controllers.job_scheduling import are_job_groups_enabled
from allotment.controllers.job_workloads import TEMPLATE_ANNOTATION, pod_group_name, workload_name, workload_of
from allotment.controllers.jobs import jobs
from allotment.model.features import Features
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.controllers.test_jobs import job
from tests.unit.controllers.world import World, world

ON = Features("1.37", {"GenericWorkload": True, "WorkloadWithJob": True})
CONTROLLER = jobs(ON)
GANG: Tree = {"schedulingPolicy": {"gang": {}}}


async def with_pods(cluster: World, tree: Tree) -> list[Tree]:
    """Create a Job and return its pods."""
    cluster.put(JOBS, tree)
    await cluster.until(lambda: len(cluster.all(PODS)) == tree["spec"]["parallelism"])
    await cluster.settled()
    return cluster.all(PODS)


def groups_of(pods: list[Tree]) -> set[str]:
    return {(pod["spec"].get("schedulingGroup") or {}).get("podGroupName", "") for pod in pods}


def template_of(**spec: Any) -> Tree:
    (template,) = workload_of(CachedItem({**job(**spec), **_IDENTITY}))["spec"]["podGroupTemplates"]
    found: Tree = template
    return found


_IDENTITY: Tree = {
    "kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "j", "namespace": "ns", "uid": "uid-j"},
}  # fmt: skip


def test_a_job_gets_a_workload_and_a_group_and_its_pods_are_members() -> None:
    async def scenario() -> None:
        async with world(CONTROLLER) as cluster:
            pods = await with_pods(cluster, job(parallelism=2, completions=2))
            [workload], [group] = cluster.all(WORKLOADS), cluster.all(POD_GROUPS)
            owner = {
                "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": cluster.get(JOBS, "j")["metadata"]["uid"],
                "controller": True, "blockOwnerDeletion": True,
            }  # fmt: skip
            assert workload["metadata"]["ownerReferences"] == [owner]
            assert workload["spec"] == {
                "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"},
                "podGroupTemplates": [{"name": "j-pgt-0", "schedulingPolicy": {"basic": {}}}],
            }
            name = workload["metadata"]["name"]
            assert name == workload_name("j", owner["uid"])
            assert group["metadata"]["name"] == pod_group_name(name, "j-pgt-0")
            assert group["metadata"]["ownerReferences"] == [
                owner,
                {
                    "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "name": name,
                    "uid": workload["metadata"]["uid"],
                },
            ]  # fmt: skip
            assert group["spec"] == {
                "workloadRef": {"workloadName": name, "templateName": "j-pgt-0"},
                "schedulingPolicy": {"basic": {}},
            }
            assert groups_of(pods) == {group["metadata"]["name"]}
            # The group is no owner of the pods.
            assert all(len(pod["metadata"]["ownerReferences"]) == 1 for pod in pods)
            assert cluster.events("WorkloadCreated") == [f"Created Workload {name} for Job j"]
            assert cluster.events("PodGroupCreated") == [f"Created PodGroup {group['metadata']['name']} for Job j"]

    idle.run(scenario())


def test_the_template_has_what_the_job_requests() -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    template = template_of(
        parallelism=3,
        scheduling={
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
            "disruptionMode": {"all": {}},
            "resourceClaims": claims,
        },
    )
    assert template == {
        "name": "j-pgt-0", "schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]}, "resourceClaims": claims,
    }  # fmt: skip


@pytest.mark.parametrize(("parallelism", "minimum"), [(3, 3), (0, 1)])
def test_a_gang_without_a_minimum_has_that_of_the_parallelism(parallelism: int, minimum: int) -> None:
    template = template_of(parallelism=parallelism, scheduling=GANG)
    assert template["schedulingPolicy"] == {"gang": {"minCount": minimum}}


def test_the_priority_class_of_the_pods_is_that_of_the_group() -> None:
    tree = job()
    tree["spec"]["template"]["spec"]["priorityClassName"] = "high"
    (template,) = workload_of(CachedItem({**tree, **_IDENTITY}))["spec"]["podGroupTemplates"]
    assert template["priorityClassName"] == "high"


def test_a_changed_gang_is_changed_in_both_objects() -> None:
    async def scenario() -> None:
        async with world(CONTROLLER) as cluster:
            await with_pods(cluster, job(parallelism=2, completions=2, scheduling=GANG))
            spec = {**cluster.get(JOBS, "j")["spec"], "scheduling": {"schedulingPolicy": {"gang": {"minCount": 1}}}}
            cluster.change(JOBS, "j", spec=spec)

            def counts() -> list[int]:
                [workload], [group] = cluster.all(WORKLOADS), cluster.all(POD_GROUPS)
                policies = workload["spec"]["podGroupTemplates"][0], group["spec"]
                return [policy["schedulingPolicy"]["gang"]["minCount"] for policy in policies]

            await cluster.until(lambda: counts() == [1, 1])

    idle.run(scenario())


def test_a_job_with_a_group_of_its_own_gets_none() -> None:
    async def scenario() -> None:
        async with world(CONTROLLER) as cluster:
            tree = job()
            tree["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "mine"}
            assert groups_of(await with_pods(cluster, tree)) == {"mine"}
            assert not cluster.all(WORKLOADS)

    idle.run(scenario())


def test_a_started_job_gets_no_group() -> None:
    async def scenario() -> None:
        async with world(CONTROLLER) as cluster:
            tree = {**job(), "status": {"startTime": "2026-01-01T00:00:00Z"}}
            assert groups_of(await with_pods(cluster, tree)) == {""}
            assert not cluster.all(WORKLOADS)

    idle.run(scenario())


def owned(name: str = "j") -> Tree:
    tree = job(parallelism=2, completions=2)
    owner = {"apiVersion": "x.example.com/v1", "kind": "Set", "name": "s", "uid": "uid-s", "controller": True}
    return {**tree, "metadata": {**tree["metadata"], "ownerReferences": [owner]}}


def test_a_job_of_another_controller_gets_none() -> None:
    async def scenario() -> None:
        async with world(CONTROLLER) as cluster:
            assert groups_of(await with_pods(cluster, owned())) == {""}
            assert not cluster.all(WORKLOADS)

    idle.run(scenario())


def test_a_delegated_job_gets_a_group_from_the_workload_of_its_parent() -> None:
    async def scenario() -> None:
        async with world(CONTROLLER) as cluster:
            template = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}}
            reference = {"apiGroup": "x.example.com", "kind": "Set", "name": "s"}
            cluster.put(
                WORKLOADS,
                {"metadata": {"name": "w"}, "spec": {"controllerRef": reference, "podGroupTemplates": [template]}},
            )
            tree = owned()
            tree["metadata"]["annotations"] = {TEMPLATE_ANNOTATION: "workers"}
            pods = await with_pods(cluster, tree)
            [group] = cluster.all(POD_GROUPS)
            assert groups_of(pods) == {group["metadata"]["name"]}
            assert [owner["kind"] for owner in group["metadata"]["ownerReferences"]] == ["Job"]
            assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}
            assert cluster.names(WORKLOADS) == ["w"]

    idle.run(scenario())


def test_a_group_is_completed_after_a_crash() -> None:
    async def scenario() -> None:
        async with world(CONTROLLER) as cluster:
            cluster.put(JOBS, job())
            await cluster.until(lambda: cluster.all(POD_GROUPS))
            [workload] = cluster.all(WORKLOADS)
        async with world(CONTROLLER) as cluster:
            cluster.put(WORKLOADS, workload)
            cluster.put(JOBS, {**job(), "metadata": {"name": "j", "uid": _owner_uid(workload)}})
            await cluster.until(lambda: cluster.all(PODS))
            assert cluster.names(WORKLOADS) == [workload["metadata"]["name"]]
            assert groups_of(cluster.all(PODS)) == set(cluster.names(POD_GROUPS))

    idle.run(scenario())


def _owner_uid(tree: Tree) -> str:
    uid: str = tree["metadata"]["ownerReferences"][0]["uid"]
    return uid


def test_long_names_are_shortened() -> None:
    assert len(workload_name("j" * 300, "u")) == 253
    for workload, template in (("w" * 250, "t" * 250), ("w", "t" * 250), ("w" * 250, "t")):
        name = pod_group_name(workload, template)
        assert len(name) == 253
        assert name.startswith("w")


def test_only_1_37_has_groups_of_jobs() -> None:
    assert are_job_groups_enabled(ON)
    assert not are_job_groups_enabled(Features("1.37"))
    assert not are_job_groups_enabled(Features("1.36", {"WorkloadWithJob": True}))
