"""The scheduler binds, tells, preempts, and does what it must after conflicts and answers that were lost.

And beside another one, who gives its devices away as well: once while it settles, once when that is too late.
"""

from __future__ import annotations

from typing import Any

from allotment.cluster.client import Resource
from allotment.cluster.errors import Unreachable
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.resources import CLAIMS, DEVICE_CLASSES, NEW_EVENTS, NODES, PODS, PRIORITY_CLASSES
from allotment.model.generated_claims import POD_CLAIM_NAME
from allotment.model.trees import Tree
from allotment.scheduler.program import SchedulerOptions, scheduler
from tests.kube.permitted.ground import FEATURES, NODE, Account, Ground, gone, there
from tests.kube.permitted.playing import Meddled, is_leaving, renewed, running, scraped, until


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
    options = SchedulerOptions(FEATURES, name="allotment")
    async with ground.client() as admin:

        async def before(verb: str, resource: Resource, tree: Tree, subresource: str) -> None:
            name = (tree.get("metadata") or {}).get("name", "")
            if (verb, resource, subresource) == ("update", CLAIMS, "") and name.startswith("changed"):
                await admin.patch(CLAIMS, name, {"metadata": {"labels": {"changed": mark}}}, "default")
            if subresource == "status" and name == f"wanted-{mark}" and not rivals:
                # At the same moment: ours does not know yet, and nothing conflicts.
                rivals.append(await _given(admin, f"theirs-{mark}", tree["status"]["allocation"]))

        async def after(verb: str, resource: Resource, tree: Tree, subresource: str) -> None:
            name = (tree.get("metadata") or {}).get("name", "")
            if subresource == "binding" and name.startswith("lost") and name not in lost:
                lost.add(name)
                raise Unreachable("the answer was lost")

        lost: set[str] = set()
        rivals: list[str] = []

        async def bound(name: str) -> bool:
            return bool((await admin.get(PODS, name, "default"))["spec"].get("nodeName"))

        async def told(name: str, text: str) -> bool:
            conditions = (await admin.get(PODS, name, "default"))["status"].get("conditions") or ()
            return any(text in one.get("message", "") for one in conditions)

        async def heard(name: str, reason: str) -> int:
            """How often what was said most often was."""
            events = (await admin.list(NEW_EVENTS, "default", fields=f"regarding.name={name},reason={reason}")).items
            return max(((one.get("series") or {}).get("count", 1) for one in events), default=0)

        async with Meddled(account.target, before, after) as client, running(client, "scheduler", scheduler(options)):
            await scraped(client, account.target.token)
            async with there(admin, (CLAIMS, claim(f"lost-{mark}")), (PODS, pod(f"lost-{mark}", f"lost-{mark}"))):
                await until(lambda: heard(f"lost-{mark}", "Scheduled"))
            name = f"changed-{mark}"
            async with there(admin, (CLAIMS, claim(name)), (PODS, pod(name, name))):
                await until(lambda: bound(name))
            await _preempts(admin, mark, bound)
            await _extended(admin, mark, bound)
            await _beside(admin, mark, bound)
            async with there(admin, (PODS, pod(f"picky-{mark}", nodeSelector={"zone": "none"}))):
                # Of two that come before one is written, one request tells.
                known: int = await until(lambda: heard(f"picky-{mark}", "FailedScheduling"))
                await admin.patch(NODES, NODE, {"spec": {"unschedulable": True}})
                await until(lambda: told(f"picky-{mark}", "unschedulable"))
                await admin.patch(NODES, NODE, {"spec": {"unschedulable": None}})

                async def heard_again() -> bool:
                    return await heard(f"picky-{mark}", "FailedScheduling") > known

                await until(heard_again)
            await renewed(admin, "scheduler")


async def _preempts(admin: HttpClient, mark: str, bound: Any) -> None:
    low, high = f"low-{mark}", f"high-{mark}"
    important = {"metadata": {"name": f"important-{mark}"}, "value": 1000}
    much: Tree = {"resources": {"requests": {"cpu": "100"}}}  # a node has 128
    async with there(admin, (PRIORITY_CLASSES, important), (PODS, pod(low, **much))):
        await until(lambda: bound(low))
        async with there(admin, (PODS, pod(high, priorityClassName=f"important-{mark}", **much))):
            await until(lambda: is_leaving(admin, low))


async def _beside(admin: HttpClient, mark: str, bound: Any) -> None:
    """A device is given away twice while it settles, and once more when its pod is bound."""
    wanted, entry = f"wanted-{mark}", "gpu"
    waits = pod(wanted, schedulingGates=[{"name": "example.com/wait"}])
    waits["spec"]["resourceClaims"] = [{"name": entry, "resourceClaimTemplateName": "none"}]
    # While a pod of theirs wants devices, decisions of ours settle.
    theirs = pod(f"theirs-{mark}", f"none-{mark}", schedulerName="another")
    async with there(admin, (PODS, theirs), (PODS, waits)) as (_, mine):
        owner = {"apiVersion": "v1", "kind": "Pod", "controller": True, "name": wanted, "uid": mine["metadata"]["uid"]}
        made = claim(wanted)
        made["metadata"] |= {"annotations": {POD_CLAIM_NAME: entry}, "ownerReferences": [owner]}
        async with there(admin, (CLAIMS, made)):
            status = {"resourceClaimStatuses": [{"name": entry, "resourceClaimName": wanted}]}
            await admin.patch(PODS, wanted, {"status": status}, "default", subresource="status", kind="strategic")
            await admin.patch(PODS, wanted, {"spec": {"schedulingGates": None}}, "default")
            await until(lambda: bound(wanted))
            await gone(admin, CLAIMS, f"theirs-{mark}")
            await until(lambda: _is_gone(admin, wanted))  # nobody wants its device any more
        (entry_of,) = (await admin.get(PODS, wanted, "default"))["status"]["resourceClaimStatuses"]
        got = await admin.get(CLAIMS, entry_of["resourceClaimName"], "default")
        await _given(admin, f"late-{mark}", got["status"]["allocation"])
        await until(lambda: is_leaving(admin, wanted))


async def _given(admin: HttpClient, name: str, allocation: Tree) -> str:
    """A claim of another scheduler that gets what ours gets; its name."""
    tree = await admin.create(CLAIMS, claim(name), "default")
    users = [{"resource": "pods", "name": "nobody", "uid": name}]
    status = {"allocation": allocation, "reservedFor": users}
    await admin.update(CLAIMS, {**tree, "status": status}, subresource="status")
    return name


async def _is_gone(admin: HttpClient, claim: str) -> bool:
    return all(one["metadata"]["name"] != claim for one in (await admin.list(CLAIMS, "default")).items)


async def _extended(admin: HttpClient, mark: str, bound: Any) -> None:
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
