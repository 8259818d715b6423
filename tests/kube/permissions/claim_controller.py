"""The claim controller creates claims for pods and pod groups, reports failures, and releases unused claims."""

from __future__ import annotations

from functools import partial
from typing import Any

from allotment.cluster.client import Client, Resource
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, EVENTS, POD_GROUPS, PODS
from allotment.controllers.resource_claims import resource_claims
from allotment.model.resource import FINALIZER
from allotment.model.trees import Tree
from tests.kube.permissions.environment import NODE, Account, ScenarioCluster, force_delete, temporary_objects
from tests.kube.permissions.runner import running_component, scrape, wait_for_lease, wait_for_repeat, wait_until
from tests.kube.permissions.scheduler import claim


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


async def run(cluster: ScenarioCluster, account: Account) -> None:
    """Run the whole scenario."""
    mark = cluster.unique_name()
    async with cluster.client() as admin, HttpClient(account.target) as client:
        await scrape(client, account.target.token)

        async def named(resource: Resource, name: str) -> str:
            status = (await admin.get(resource, name, "default")).get("status") or {}
            return next((condition["resourceClaimName"] for condition in status.get("resourceClaimStatuses") or ()), "")

        async def times() -> int:
            events = (await admin.list(EVENTS, "default", fields=f"involvedObject.name=lacks-{mark}")).items
            return max((event.get("count", 0) for event in events), default=0)

        async def is_gone(name: str) -> bool:
            return all(claim["metadata"]["name"] != name for claim in (await admin.list(CLAIMS, "default")).items)

        async def is_free(name: str) -> bool:
            tree = await admin.get(CLAIMS, name, "default")
            return not tree.get("status") and not tree["metadata"].get("finalizers")

        known = f"t-{mark}"
        async with (
            running_component(client, "claims", resource_claims(cluster.features)),
            temporary_objects(
                admin, (CLAIM_TEMPLATES, template(known)), (PODS, pod(f"has-{mark}", known)),
                (PODS, pod(f"lacks-{mark}", f"missing-{mark}")), (POD_GROUPS, group(f"group-{mark}", known)),
                (CLAIMS, claim(f"left-{mark}")), (CLAIMS, claim(f"held-{mark}")),
            ) as created,
        ):  # fmt: skip
            await wait_until(lambda: named(POD_GROUPS, f"group-{mark}"))
            first = await wait_until(lambda: named(PODS, f"has-{mark}"))
            await force_delete(admin, CLAIMS, first)

            async def another() -> str:
                return name if (name := await named(PODS, f"has-{mark}")) != first else ""

            last = await wait_until(another)
            await admin.patch(PODS, f"has-{mark}", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
            await wait_until(lambda: is_gone(last))
            # These users never existed, so no cache knows them, and the controller queries the API server.
            for tree, user in zip(created[-2:], ({"resource": "pods"}, POD_GROUP), strict=True):
                await _allocated(admin, tree, {**user, "name": f"missing-{mark}", "uid": f"uid-{mark}"})
                await wait_until(partial(is_free, tree["metadata"]["name"]))
            await wait_for_repeat(times)
            await wait_for_lease(admin, "claims")
            claims = (await admin.list(CLAIMS, "default")).items
            for name in [claim["metadata"]["name"] for claim in claims if f"-{mark}-" in claim["metadata"]["name"]]:
                await force_delete(admin, CLAIMS, name)


POD_GROUP: Tree = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups"}


async def _allocated(admin: Client, tree: Tree, user: Tree) -> None:
    """Allocate a claim for a user, as a scheduler does."""
    held = await admin.update(CLAIMS, {**tree, "metadata": {**tree["metadata"], "finalizers": [FINALIZER]}})
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": NODE, "device": "gpu-0"}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
    await admin.update(CLAIMS, {**held, "status": status}, subresource="status")
