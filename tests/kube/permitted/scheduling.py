"""The scheduler binds, tells, preempts, and does what it must after conflicts and answers that were lost."""

from __future__ import annotations

from typing import Any

from allotment.cluster.client import Resource
from allotment.cluster.errors import Unreachable
from allotment.cluster.resources import CLAIMS, DEVICE_CLASSES, NEW_EVENTS, NODES, PODS, PRIORITY_CLASSES
from allotment.scheduler.program import Options, scheduler
from tests.kube.permitted.ground import FEATURES, NODE, Account, Ground, there
from tests.kube.permitted.playing import Meddled, is_leaving, renewed, running, scraped, until

Tree = dict[str, Any]


def claim(name: str, count: int = 1) -> Tree:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": count}}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


def pod(name: str, *claims: str, **more: Any) -> Tree:
    used = [{"name": f"c{number}", "resourceClaimName": one} for number, one in enumerate(claims)]
    resources = more.pop("resources", {"claims": [{"name": one["name"]} for one in used]})
    container = {"name": "main", "image": "none", "resources": resources}
    spec = {"schedulerName": "allotment", "containers": [container], "resourceClaims": used, **more}
    return {"metadata": {"name": name}, "spec": spec}


async def play(ground: Ground, account: Account) -> None:
    """All of it."""
    mark = ground.mark()
    options = Options(FEATURES, name="allotment")
    async with ground.client() as admin:

        async def before(verb: str, resource: Resource, tree: Tree, subresource: str) -> None:
            name = (tree.get("metadata") or {}).get("name", "")
            if (verb, resource, subresource) == ("update", CLAIMS, "") and name.startswith("contested"):
                await admin.patch(CLAIMS, name, {"metadata": {"labels": {"changed": mark}}}, "default")

        async def after(verb: str, resource: Resource, tree: Tree, subresource: str) -> None:
            name = (tree.get("metadata") or {}).get("name", "")
            if subresource == "binding" and name.startswith("lost") and name not in lost:
                lost.add(name)
                raise Unreachable("the answer was lost")

        lost: set[str] = set()

        async def bound(name: str) -> bool:
            return bool((await admin.get(PODS, name, "default"))["spec"].get("nodeName"))

        async def told(name: str, text: str) -> bool:
            conditions = (await admin.get(PODS, name, "default"))["status"].get("conditions") or ()
            return any(text in one.get("message", "") for one in conditions)

        async def heard(name: str, reason: str, times: int = 1) -> bool:
            events = (await admin.list(NEW_EVENTS, "default", fields=f"regarding.name={name},reason={reason}")).items
            return any((one.get("series") or {}).get("count", 1) >= times for one in events)

        async with Meddled(account.target, before, after) as client, running(client, "scheduler", scheduler(options)):
            await scraped(client, account.target.token)
            async with there(admin, (CLAIMS, claim(f"lost-{mark}")), (PODS, pod(f"lost-{mark}", f"lost-{mark}"))):
                await until(lambda: heard(f"lost-{mark}", "Scheduled"))
            name = f"contested-{mark}"
            async with there(admin, (CLAIMS, claim(name)), (PODS, pod(name, name))):
                await until(lambda: bound(name))
            await _preempts(admin, mark, bound)
            await _extended(admin, mark, bound)
            async with there(admin, (PODS, pod(f"picky-{mark}", nodeSelector={"zone": "none"}))):
                await until(lambda: told(f"picky-{mark}", "selector"))
                await admin.patch(NODES, NODE, {"spec": {"unschedulable": True}})
                await until(lambda: told(f"picky-{mark}", "unschedulable"))
                await admin.patch(NODES, NODE, {"spec": {"unschedulable": None}})
                await until(lambda: heard(f"picky-{mark}", "FailedScheduling", 2))
            await renewed(admin, "scheduler")


async def _preempts(admin: Any, mark: str, bound: Any) -> None:
    low, high = f"low-{mark}", f"high-{mark}"
    important = {"metadata": {"name": f"important-{mark}"}, "value": 1000}
    much: Tree = {"resources": {"requests": {"cpu": "100"}}}  # a node has 128
    async with there(admin, (PRIORITY_CLASSES, important), (PODS, pod(low, **much))):
        await until(lambda: bound(low))
        async with there(admin, (PODS, pod(high, priorityClassName=f"important-{mark}", **much))):
            await until(lambda: is_leaving(admin, low))


async def _extended(admin: Any, mark: str, bound: Any) -> None:
    """A device class that stands for an extended resource; and a claim for one that another scheduler left behind."""
    resource = f"example.com/gpu-{mark}"
    selector = {"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}
    known = {
        "metadata": {"name": f"counted-{mark}"},
        "spec": {"selectors": [selector], "extendedResourceName": resource},
    }
    asked = {"resources": {"limits": {resource: "1"}}}
    gated = pod(f"gated-{mark}", schedulingGates=[{"name": "example.com/wait"}], **asked)
    async with there(admin, (DEVICE_CLASSES, known), (PODS, pod(f"counts-{mark}", **asked)), (PODS, gated)) as made:
        await until(lambda: bound(f"counts-{mark}"))
        owner = {"apiVersion": "v1", "kind": "Pod", "controller": True, "name": f"gated-{mark}",
                 "uid": made[2]["metadata"]["uid"]}  # fmt: skip
        behind = claim(f"behind-{mark}")
        behind["metadata"] |= {
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}, "ownerReferences": [owner]
        }  # fmt: skip
        await admin.create(CLAIMS, behind, "default")
        await admin.patch(PODS, f"gated-{mark}", {"spec": {"schedulingGates": None}}, "default")
        await until(lambda: bound(f"gated-{mark}"))
