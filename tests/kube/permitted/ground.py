"""A cluster for the stories: a kube-apiserver without controllers, one node with GPUs, accounts with chosen rights."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from allotment.cluster.client import Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.inspection import permissions
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.cluster.resources import CLAIMS, LEASES, PODS, SERVICE_ACCOUNTS, SLICES
from allotment.fleet.cluster import cluster_of
from allotment.fleet.description import parse_fleet
from allotment.lab import fleet
from allotment.model.features import Features
from allotment.model.trees import Tree, to_tree
from allotment.tools.permissions.access_reviews import access_requests
from allotment.tools.permissions.components import lease_of
from allotment.tools.permissions.roles import GROUP, manifests, name_of
from allotment.tools.permissions.rule import ComponentPermissions
from bench import real_kube
from tests.kube.permitted.audit import Audit, Request

GATES: Final = {
    "DRADeviceTaintRules": True, "DRAWorkloadResourceClaims": True, "GenericWorkload": True,
}  # fmt: skip
FEATURES: Final = Features(kube="1.36", gates={"DRADeviceTaintRules": True, "DRAWorkloadResourceClaims": True})
HARDWARE: Final = "t4-4x-pcie"
NODE: Final = "t4-4x-pcie-1"
_SERVED: Final = "resource.k8s.io/v1beta2=true,scheduling.k8s.io/v1alpha2=true"
#: Controllers that do not run would undo what these do to every pod and node.
_WITHOUT: Final = "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"
_RESOURCES: Final = {
    "ServiceAccount": SERVICE_ACCOUNTS,
    "ClusterRole": Resource(GROUP, "v1", "clusterroles", "ClusterRole", False),
    "ClusterRoleBinding": Resource(GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", False),
    "Role": Resource(GROUP, "v1", "roles", "Role", True),
    "RoleBinding": Resource(GROUP, "v1", "rolebindings", "RoleBinding", True),
}  # fmt: skip


class Account(NamedTuple):
    """A service account with a part's permissions, or with some of them. ``node``: of the pod whose its token is."""

    name: str
    user: str
    target: ClusterTarget
    node: str = ""


class Ground:
    """See the module."""

    def __init__(self, server: real_kube.ApiServer, audit: Audit) -> None:
        self.server = server
        self.audit = audit
        self._numbers = itertools.count(1)

    def mark(self) -> str:
        """A word that no object has in its name yet."""
        return f"n{next(self._numbers)}"

    def client(self) -> HttpClient:
        """The administrator's. Use ``async with``."""
        return self.server.client()

    async def clear(self) -> None:
        """Take away what an earlier story left: nobody here collects garbage, and one that is cut short cannot.

        A pod that stays keeps its room, and a claim of a pod that is gone its devices.
        """
        async with self.client() as admin:
            for resource in (PODS, CLAIMS):
                for one in (await admin.list(resource, "default")).items:
                    await gone(admin, resource, one["metadata"]["name"])

    async def account(self, part: ComponentPermissions, node: str = "") -> Account:
        """An account with exactly a part's permissions; its token is that of a pod on a node, if one is named."""
        lease = lease_of(part.name)
        part = part._replace(name=f"{part.name}-{self.mark()}")
        name = name_of(part)
        async with self.client() as admin:
            with contextlib.suppress(StatusError):
                await admin.delete(LEASES, lease, "kube-system")  # whoever comes first makes it
            for tree in manifests(part):
                await admin.create(_RESOURCES[tree["kind"]], tree, tree["metadata"].get("namespace", ""))
            bound: Tree = {}
            if node:
                container = {"name": "main", "image": "none"}
                spec = {"serviceAccountName": name, "nodeName": node, "containers": [container]}
                pod = await admin.create(PODS, {"metadata": {"name": name}, "spec": spec}, "kube-system")
                bound = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": pod["metadata"]["uid"]}
            asked: Tree = {"spec": {"boundObjectRef": bound or None, "expirationSeconds": 3600, "audiences": []}}
            told = await admin.create(SERVICE_ACCOUNTS, asked, "kube-system", name=name, subresource="token")
        user = f"system:serviceaccount:kube-system:{name}"
        account = Account(name, user, self.server.target(told["status"]["token"]), node)
        await self._heeded(part, account)
        return account

    async def grant(self, account: Account, part: ComponentPermissions) -> None:
        """Let an account do what a part may, and nothing else; the server heeds it a moment later."""
        async with self.client() as admin:
            for tree in manifests(part._replace(name=account.name.removeprefix("allotment-"))):
                name, namespace = tree["metadata"]["name"], tree["metadata"].get("namespace", "")
                await admin.patch(_RESOURCES[tree["kind"]], name, tree, namespace, kind="apply", force=True)

    async def _heeded(self, part: ComponentPermissions, account: Account) -> None:
        """Wait until the server lets the account do something by each of its roles: it learns of them later."""
        home = part._replace(cluster_wide=())
        some = [
            asked[-1] for asked in (access_requests(part._replace(in_namespace=())), access_requests(home)) if asked
        ]
        async with self.client() as admin:
            while await permissions.missing(admin, some, account.user):
                await asyncio.sleep(0.02)

    def asked_by(self, account: Account) -> list[Request]:
        """What an account has asked until now."""
        return self.audit.of(account.user)

    def refused(self, account: Account) -> list[Request]:
        """What of it was refused for a permission that is missing."""
        return [one for one in self.asked_by(account) if one.refused]


@contextlib.contextmanager
def ground(paths: dict[str, str], folder: Path) -> Iterator[Ground]:
    """One for a module."""
    audit = Audit(folder)
    flags = (*audit.arguments, _WITHOUT)
    with real_kube.api_server(paths, *flags, gates=GATES, runtime_config=_SERVED, durable=False) as server:
        found = Ground(server, audit)
        asyncio.run(_furnished(found))
        yield found


async def _furnished(found: Ground) -> None:
    async with found.client() as admin:
        await fleet.publish(admin, (HARDWARE,), kube="1.36", version="test", now="2026-01-01T00:00:00Z")
        for one in cluster_of(parse_fleet((HARDWARE,))).slices:
            await admin.create(SLICES, to_tree(one, SLICES.api_version, SLICES.kind))


@contextlib.asynccontextmanager
async def there(client: HttpClient, *objects: tuple[Resource, Tree]) -> AsyncIterator[list[Tree]]:
    """Objects that are there for as long as the context, and are then gone, whoever keeps them."""
    made: list[tuple[Resource, Tree]] = []
    try:
        for resource, tree in objects:
            namespace = "default" if resource.namespaced else ""
            # One that is called off has perhaps been made all the same.
            making = asyncio.ensure_future(client.create(resource, tree, namespace))
            try:
                made.append((resource, await asyncio.shield(making)))
            except asyncio.CancelledError:
                with contextlib.suppress(StatusError):
                    made.append((resource, await making))
                raise
        yield [tree for _, tree in made]
    finally:
        for resource, tree in reversed(made):
            await gone(client, resource, tree["metadata"]["name"])


async def gone(client: HttpClient, resource: Resource, name: str) -> None:
    """Delete an object at once, finalizers or not."""
    namespace = "default" if resource.namespaced else ""
    with contextlib.suppress(StatusError):
        await client.patch(resource, name, {"metadata": {"finalizers": None}}, namespace)
    with contextlib.suppress(StatusError):
        await client.delete(resource, name, namespace, grace_seconds=0)
