"""The claim controller makes claims for pods and groups, tells when it cannot, and frees what nobody uses."""

from __future__ import annotations

from functools import partial
from typing import Any

from allotment.cluster.client import Resource
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, EVENTS, POD_GROUPS, PODS
from allotment.controllers.resource_claims import resource_claims
from allotment.model.resource import FINALIZER
from allotment.model.trees import Tree
from tests.kube.permitted.ground import FEATURES, NODE, Account, Ground, gone, there
from tests.kube.permitted.playing import renewed, running, scraped, told_again, until
from tests.kube.permitted.scheduling import claim


def template(name: str) -> Tree:
    return {"metadata": {"name": name}, "spec": {"spec": claim(name)["spec"]}}


def pod(name: str, template: str, **more: Any) -> Tree:
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}
    used = [{"name": "gpu", "resourceClaimTemplateName": template}]
    spec = {"schedulerName": "none", "containers": [container], "resourceClaims": used, **more}
    return {"metadata": {"name": name}, "spec": spec}


def group(name: str, template: str) -> Tree:
    entry = {"name": "gpu", "resourceClaimTemplateName": template}
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": [entry]}}


async def play(ground: Ground, account: Account) -> None:
    """All of it."""
    mark = ground.mark()
    async with ground.client() as admin, HttpClient(account.target) as client:
        await scraped(client, account.target.token)

        async def named(resource: Resource, name: str) -> str:
            status = (await admin.get(resource, name, "default")).get("status") or {}
            return next((one["resourceClaimName"] for one in status.get("resourceClaimStatuses") or ()), "")

        async def times() -> int:
            events = (await admin.list(EVENTS, "default", fields=f"involvedObject.name=lacks-{mark}")).items
            return max((one.get("count", 0) for one in events), default=0)

        async def is_gone(name: str) -> bool:
            return all(one["metadata"]["name"] != name for one in (await admin.list(CLAIMS, "default")).items)

        async def is_free(name: str) -> bool:
            tree = await admin.get(CLAIMS, name, "default")
            return not tree.get("status") and not tree["metadata"].get("finalizers")

        known = f"t-{mark}"
        async with (
            running(client, "claims", resource_claims(FEATURES)),
            there(
                admin, (CLAIM_TEMPLATES, template(known)), (PODS, pod(f"has-{mark}", known)),
                (PODS, pod(f"lacks-{mark}", f"missing-{mark}")), (POD_GROUPS, group(f"group-{mark}", known)),
                (CLAIMS, claim(f"left-{mark}")), (CLAIMS, claim(f"held-{mark}")),
            ) as made,
        ):  # fmt: skip
            await until(lambda: named(POD_GROUPS, f"group-{mark}"))
            first = await until(lambda: named(PODS, f"has-{mark}"))
            await gone(admin, CLAIMS, first)

            async def another() -> str:
                return name if (name := await named(PODS, f"has-{mark}")) != first else ""

            last = await until(another)
            await admin.patch(PODS, f"has-{mark}", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
            await until(lambda: is_gone(last))
            # Of users who never were: nobody knows them, so the cluster is asked.
            for tree, user in zip(made[-2:], ({"resource": "pods"}, POD_GROUP), strict=True):
                await _allocated(admin, tree, {**user, "name": f"nobody-{mark}", "uid": f"uid-{mark}"})
                await until(partial(is_free, tree["metadata"]["name"]))
            await told_again(times)
            await renewed(admin, "claims")
            claims = (await admin.list(CLAIMS, "default")).items
            for name in [one["metadata"]["name"] for one in claims if f"-{mark}-" in one["metadata"]["name"]]:
                await gone(admin, CLAIMS, name)


POD_GROUP: Tree = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups"}


async def _allocated(admin: HttpClient, tree: Tree, user: Tree) -> None:
    """As a scheduler leaves a claim, for a user."""
    held = await admin.update(CLAIMS, {**tree, "metadata": {**tree["metadata"], "finalizers": [FINALIZER]}})
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": NODE, "device": "gpu-0"}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
    await admin.update(CLAIMS, {**held, "status": status}, subresource="status")
