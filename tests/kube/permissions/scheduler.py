"""The scheduler binds, writes events, preempts, and handles conflicts and lost answers.

It also runs alongside a scheduler that allocates the same devices: once while its own allocation settles, and once when
it is too late.
"""

from __future__ import annotations

from typing import Any

from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import Unreachable
from allotment.cluster.resources import (
    CLAIMS,
    DEVICE_CLASSES,
    NEW_EVENTS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
)
from allotment.model.generated_claims import POD_CLAIM_NAME
from allotment.model.trees import Tree
from allotment.scheduler.program import SchedulerOptions, scheduler
from allotment.scheduler.release import scheduler_release
from tests.kube.permissions.environment import NODE, Account, ScenarioCluster, force_delete, temporary_objects
from tests.kube.permissions.runner import (
    InterferingClient,
    is_leaving,
    running_component,
    scrape,
    wait_for_lease,
    wait_until,
)


def claim(name: str, count: int = 1) -> Tree:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": count}}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


def pod(name: str, *claims: str, **more: Any) -> Tree:
    used = [{"name": f"c{number}", "resourceClaimName": claim} for number, claim in enumerate(claims)]
    resources = more.pop("resources", {"claims": [{"name": item["name"]} for item in used]})
    container = {"name": "main", "image": "none", "resources": resources}
    spec = {"schedulerName": "allotment", "containers": [container], "resourceClaims": used, **more}
    return {"metadata": {"name": name}, "spec": spec}


async def run(cluster: ScenarioCluster, account: Account) -> None:
    """Run the whole scenario."""
    mark = cluster.unique_name()
    options = SchedulerOptions(cluster.features, name="allotment")
    async with cluster.client() as admin:

        async def before(verb: str, resource: Resource, tree: Tree, subresource: str) -> None:
            name = (tree.get("metadata") or {}).get("name", "")
            if (verb, resource, subresource) == ("update", CLAIMS, "") and name.startswith("changed"):
                await admin.patch(CLAIMS, name, {"metadata": {"labels": {"changed": mark}}}, "default")
            if subresource == "status" and name == f"wanted-{mark}" and not foreign_claims:
                # At the same moment: the scheduler has not received it yet, and no write conflicts.
                foreign_claims.append(await _foreign_claim(admin, f"theirs-{mark}", tree["status"]["allocation"]))

        async def after(verb: str, resource: Resource, tree: Tree, subresource: str) -> None:
            name = (tree.get("metadata") or {}).get("name", "")
            if subresource == "binding" and name.startswith("lost") and name not in lost:
                lost.add(name)
                raise Unreachable("the answer was lost")

        lost: set[str] = set()
        foreign_claims: list[str] = []

        async def bound(name: str) -> bool:
            return bool((await admin.get(PODS, name, "default"))["spec"].get("nodeName"))

        async def has_condition(name: str, text: str) -> bool:
            conditions = (await admin.get(PODS, name, "default"))["status"].get("conditions") or ()
            return any(text in condition.get("message", "") for condition in conditions)

        async def event_count(name: str, reason: str) -> int:
            """The count of the most frequent event."""
            events = (await admin.list(NEW_EVENTS, "default", fields=f"regarding.name={name},reason={reason}")).items
            return max(((event.get("series") or {}).get("count", 1) for event in events), default=0)

        async with (
            InterferingClient(account.target, before, after) as client,
            running_component(client, "scheduler", scheduler(options)),
        ):
            await scrape(client, account.target.token)
            async with temporary_objects(
                admin, (CLAIMS, claim(f"lost-{mark}")), (PODS, pod(f"lost-{mark}", f"lost-{mark}"))
            ):
                await wait_until(lambda: event_count(f"lost-{mark}", "Scheduled"))
            name = f"changed-{mark}"
            async with temporary_objects(admin, (CLAIMS, claim(name)), (PODS, pod(name, name))):
                await wait_until(lambda: bound(name))
            await _check_preemption(admin, mark, bound)
            await _check_volumes(admin, mark, bound)
            await _check_extended_resources(admin, mark, bound)
            await _check_coexistence(admin, mark, bound)
            if scheduler_release(cluster.features).schedules_groups:
                await _check_group(admin, mark)
            async with temporary_objects(admin, (PODS, pod(f"picky-{mark}", nodeSelector={"zone": "none"}))):
                # Two occurrences before the first write need only one request.
                known: int = await wait_until(lambda: event_count(f"picky-{mark}", "FailedScheduling"))
                await admin.patch(NODES, NODE, {"spec": {"unschedulable": True}})
                await wait_until(lambda: has_condition(f"picky-{mark}", "unschedulable"))
                await admin.patch(NODES, NODE, {"spec": {"unschedulable": None}})

                async def is_repeated() -> bool:
                    return await event_count(f"picky-{mark}", "FailedScheduling") > known

                await wait_until(is_repeated)
            await wait_for_lease(admin, "scheduler")


async def _check_group(admin: Client, mark: str) -> None:
    """The status of a PodGroup reports that its pod was scheduled."""
    name = f"group-{mark}"
    group: Tree = {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}}
    member = pod(name, schedulingGroup={"podGroupName": name})
    async with temporary_objects(admin, (POD_GROUPS, group), (PODS, member)):

        async def is_reported() -> bool:
            status = (await admin.get(POD_GROUPS, name, "default")).get("status") or {}
            return any(condition["status"] == "True" for condition in status.get("conditions") or ())

        await wait_until(is_reported)


async def _check_preemption(admin: Client, mark: str, bound: Any) -> None:
    low, high = f"low-{mark}", f"high-{mark}"
    important = {"metadata": {"name": f"important-{mark}"}, "value": 1000}
    much: Tree = {"resources": {"requests": {"cpu": "100"}}}  # a node has 128
    async with temporary_objects(admin, (PRIORITY_CLASSES, important), (PODS, pod(low, **much))):
        await wait_until(lambda: bound(low))
        async with temporary_objects(admin, (PODS, pod(high, priorityClassName=f"important-{mark}", **much))):
            await wait_until(lambda: is_leaving(admin, low))


async def _check_volumes(admin: Client, mark: str, bound: Any) -> None:
    """A volume is reserved for a claim, and another one is ordered for the pod's node."""
    found, ordered, class_name = f"found-{mark}", f"ordered-{mark}", f"late-{mark}"
    late: Tree = {
        "metadata": {"name": class_name}, "provisioner": "example.com/none",
        "volumeBindingMode": "WaitForFirstConsumer",
    }  # fmt: skip
    common: Tree = {"accessModes": ["ReadWriteOnce"], "storageClassName": class_name}
    disk: Tree = {
        "metadata": {"name": found}, "spec": {**common, "capacity": {"storage": "2Gi"}, "hostPath": {"path": "/srv"}}
    }  # fmt: skip

    def request(name: str, size: str) -> Tree:
        return {"metadata": {"name": name}, "spec": {**common, "resources": {"requests": {"storage": size}}}}

    def user(name: str) -> Tree:
        return pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": name}}])

    async def is_reserved() -> bool:
        return "claimRef" in (await admin.get(VOLUMES, found))["spec"]

    async def is_ordered() -> bool:
        annotations = (await admin.get(VOLUME_CLAIMS, ordered, "default"))["metadata"].get("annotations") or {}
        return annotations.get("volume.kubernetes.io/selected-node") == NODE

    async with temporary_objects(admin, (STORAGE_CLASSES, late), (VOLUMES, disk)):
        await admin.patch(VOLUMES, found, {"status": {"phase": "Available"}}, subresource="status")
        async with temporary_objects(admin, (VOLUME_CLAIMS, request(found, "2Gi")), (PODS, user(found))):
            await wait_until(is_reserved)
        async with temporary_objects(admin, (VOLUME_CLAIMS, request(ordered, "9Gi")), (PODS, user(ordered))):
            await wait_until(is_ordered)


async def _check_coexistence(admin: Client, mark: str, bound: Any) -> None:
    """A device is allocated twice while it settles, and again when its pod is bound."""
    expected, entry = f"wanted-{mark}", "gpu"
    waits = pod(expected, schedulingGates=[{"name": "example.com/wait"}])
    waits["spec"]["resourceClaims"] = [{"name": entry, "resourceClaimTemplateName": "none"}]
    # While a pod of the other scheduler requests devices, the allocations of Allotment's settle.
    other_pod = pod(f"theirs-{mark}", f"none-{mark}", schedulerName="another")
    async with temporary_objects(admin, (PODS, other_pod), (PODS, waits)) as (_, own_claim):
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "controller": True,
            "name": expected,
            "uid": own_claim["metadata"]["uid"],
        }
        created = claim(expected)
        created["metadata"] |= {"annotations": {POD_CLAIM_NAME: entry}, "ownerReferences": [owner]}
        async with temporary_objects(admin, (CLAIMS, created)):
            status = {"resourceClaimStatuses": [{"name": entry, "resourceClaimName": expected}]}
            await admin.patch(PODS, expected, {"status": status}, "default", subresource="status", kind="strategic")
            await admin.patch(PODS, expected, {"spec": {"schedulingGates": None}}, "default")
            await wait_until(lambda: bound(expected))
            await force_delete(admin, CLAIMS, f"theirs-{mark}")
            await wait_until(
                lambda: _is_gone(admin, expected)
            )  # the other scheduler's pod does not need its device any more
        (entry_of,) = (await admin.get(PODS, expected, "default"))["status"]["resourceClaimStatuses"]
        got = await admin.get(CLAIMS, entry_of["resourceClaimName"], "default")
        await _foreign_claim(admin, f"late-{mark}", got["status"]["allocation"])
        await wait_until(lambda: is_leaving(admin, expected))


async def _foreign_claim(admin: Client, name: str, allocation: Tree) -> str:
    """Create a claim of another scheduler with the same allocation; return its name."""
    tree = await admin.create(CLAIMS, claim(name), "default")
    users = [{"resource": "pods", "name": "missing", "uid": name}]
    status = {"allocation": allocation, "reservedFor": users}
    await admin.update(CLAIMS, {**tree, "status": status}, subresource="status")
    return name


async def _is_gone(admin: Client, claim: str) -> bool:
    return all(item["metadata"]["name"] != claim for item in (await admin.list(CLAIMS, "default")).items)


async def _check_extended_resources(admin: Client, mark: str, bound: Any) -> None:
    """A device class with an extended resource name, and a claim for one that another scheduler left behind."""
    resource = f"example.com/gpu-{mark}"
    selector = {"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}
    known = {
        "metadata": {"name": f"counted-{mark}"},
        "spec": {"selectors": [selector], "extendedResourceName": resource},
    }
    container_resources = {"resources": {"limits": {resource: "1"}}}
    gated = pod(f"gated-{mark}", schedulingGates=[{"name": "example.com/wait"}], **container_resources)
    async with temporary_objects(
        admin, (DEVICE_CLASSES, known), (PODS, pod(f"counts-{mark}", **container_resources)), (PODS, gated)
    ) as created:
        await wait_until(lambda: bound(f"counts-{mark}"))
        owner = {"apiVersion": "v1", "kind": "Pod", "controller": True, "name": f"gated-{mark}",
                 "uid": created[2]["metadata"]["uid"]}  # fmt: skip
        behind = claim(f"behind-{mark}")
        behind["metadata"] |= {
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}, "ownerReferences": [owner]
        }  # fmt: skip
        await admin.create(CLAIMS, behind, "default")
        await admin.patch(PODS, f"gated-{mark}", {"spec": {"schedulingGates": None}}, "default")
        await wait_until(lambda: bound(f"gated-{mark}"))
