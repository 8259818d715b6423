"""The cluster of the scenarios: a kube-apiserver without controllers, one node with GPUs, accounts with chosen
permissions."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.inspection import permissions
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.cluster.remote.version_negotiation import NegotiatingClient
from allotment.cluster.resources import CLAIMS, LEASES, PODS, SERVICE_ACCOUNTS, SLICES
from allotment.fleet.cluster import cluster_of
from allotment.fleet.description import parse_fleet
from allotment.lab import fleet
from allotment.model.features import Features
from allotment.model.trees import Tree, to_tree
from allotment.permissions.access_reviews import access_requests
from allotment.permissions.components import lease_of
from allotment.permissions.roles import GROUP, manifests, name_of
from allotment.permissions.rule import ComponentPermissions
from bench import real_kube
from tests.kube.permissions.audit import Audit, Request
from tests.kube.releases import KUBE_RELEASES

HARDWARE: Final = "t4-4x-pcie"
NODE: Final = "t4-4x-pcie-1"
#: Admission plugins that depend on controllers, which do not run here.
_WITHOUT: Final = "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"
_RESOURCES: Final = {
    "ServiceAccount": SERVICE_ACCOUNTS,
    "ClusterRole": Resource(GROUP, "v1", "clusterroles", "ClusterRole", False),
    "ClusterRoleBinding": Resource(GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", False),
    "Role": Resource(GROUP, "v1", "roles", "Role", True),
    "RoleBinding": Resource(GROUP, "v1", "rolebindings", "RoleBinding", True),
}  # fmt: skip


class Account(NamedTuple):
    """A service account with all or some of a component's permissions. ``node``: the node of the pod that its token
    belongs to."""

    name: str
    user: str
    target: ClusterTarget
    node: str = ""


class ScenarioCluster:
    """The test cluster, its accounts and its audit log."""

    def __init__(self, server: real_kube.ApiServer, audit: Audit, features: Features) -> None:
        self.server = server
        self.audit = audit
        self.features = features
        self._numbers = itertools.count(1)

    def unique_name(self) -> str:
        """A string that no object has in its name yet."""
        return f"n{next(self._numbers)}"

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[NegotiatingClient]:
        """A client of the administrator."""
        async with self.server.client() as admin:
            yield NegotiatingClient(admin)

    async def clear(self) -> None:
        """Delete the objects of an earlier scenario: no garbage collector runs, and a cancelled scenario does not clean
        up.

        A pod that stays would keep its resources, and a claim of a deleted pod its devices.
        """
        async with self.client() as admin:
            for resource in (PODS, CLAIMS):
                for item in (await admin.list(resource, "default")).items:
                    await force_delete(admin, resource, item["metadata"]["name"])

    async def account(self, component: ComponentPermissions, node: str = "") -> Account:
        """An account with exactly a component's permissions; its token belongs to a pod on a node, if one is named."""
        lease = lease_of(component.name)
        component = component._replace(name=f"{component.name}-{self.unique_name()}")
        name = name_of(component)
        async with self.client() as admin:
            with contextlib.suppress(StatusError):
                await admin.delete(LEASES, lease, "kube-system")  # the first scenario of the component creates it
            for tree in manifests(component):
                await admin.create(_RESOURCES[tree["kind"]], tree, tree["metadata"].get("namespace", ""))
            bound: Tree = {}
            if node:
                container = {"name": "main", "image": "none"}
                spec = {"serviceAccountName": name, "nodeName": node, "containers": [container]}
                pod = await admin.create(PODS, {"metadata": {"name": name}, "spec": spec}, "kube-system")
                bound = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": pod["metadata"]["uid"]}
            token_request: Tree = {
                "spec": {"boundObjectRef": bound or None, "expirationSeconds": 3600, "audiences": []}
            }
            answer = await admin.create(SERVICE_ACCOUNTS, token_request, "kube-system", name=name, subresource="token")
        user = f"system:serviceaccount:kube-system:{name}"
        account = Account(name, user, self.server.target(answer["status"]["token"]), node)
        await self._wait_until_effective(component, account)
        return account

    async def grant(self, account: Account, component: ComponentPermissions) -> None:
        """Grant an account a component's permissions and no others; they take effect a moment later."""
        async with self.client() as admin:
            for tree in manifests(component._replace(name=account.name.removeprefix("allotment-"))):
                name, namespace = tree["metadata"]["name"], tree["metadata"].get("namespace", "")
                await admin.patch(_RESOURCES[tree["kind"]], name, tree, namespace, kind="apply", force=True)

    async def _wait_until_effective(self, component: ComponentPermissions, account: Account) -> None:
        """Wait until each of the account's roles is in effect at the server."""
        home = component._replace(cluster_wide=())
        some = [
            request[-1]
            for request in (access_requests(component._replace(in_namespace=())), access_requests(home))
            if request
        ]
        async with self.client() as admin:
            while await permissions.missing(admin, some, account.user):
                await asyncio.sleep(0.02)

    def requests_of(self, account: Account) -> list[Request]:
        """All requests of an account until now."""
        return self.audit.requests_of(account.user)

    def forbidden_requests(self, account: Account) -> list[Request]:
        """Its requests that were rejected because of a missing permission."""
        return [item for item in self.requests_of(account) if item.is_forbidden]


@contextlib.contextmanager
def running_cluster(paths: dict[str, str], release: str, folder: Path) -> Iterator[ScenarioCluster]:
    """Run the cluster of a release for a test module."""
    chosen = KUBE_RELEASES[release]
    audit = Audit(folder)
    flags = (*audit.arguments, _WITHOUT)
    with real_kube.api_server(
        paths, *flags, gates=chosen.flags.gates, runtime_config=chosen.flags.runtime_config, durable=False
    ) as server:
        found = ScenarioCluster(server, audit, chosen.features)
        asyncio.run(_create_node(found))
        yield found


async def _create_node(found: ScenarioCluster) -> None:
    async with found.client() as admin:
        await fleet.publish(admin, (HARDWARE,), kube=found.features.kube, version="test", now="2026-01-01T00:00:00Z")
        for slice_ in cluster_of(parse_fleet((HARDWARE,))).slices:
            await admin.create(SLICES, to_tree(slice_, SLICES.api_version, SLICES.kind))


@contextlib.asynccontextmanager
async def temporary_objects(client: Client, *objects: tuple[Resource, Tree]) -> AsyncIterator[list[Tree]]:
    """Create objects, and delete them at the end of the context despite their finalizers."""
    created: list[tuple[Resource, Tree]] = []
    try:
        for resource, tree in objects:
            namespace = "default" if resource.namespaced else ""
            # A cancelled request may have created its object nevertheless.
            making = asyncio.ensure_future(client.create(resource, tree, namespace))
            try:
                created.append((resource, await asyncio.shield(making)))
            except asyncio.CancelledError:
                with contextlib.suppress(StatusError):
                    created.append((resource, await making))
                raise
        yield [tree for _, tree in created]
    finally:
        for resource, tree in reversed(created):
            await force_delete(client, resource, tree["metadata"]["name"])


async def force_delete(client: Client, resource: Resource, name: str) -> None:
    """Delete an object immediately, ignoring finalizers."""
    namespace = "default" if resource.namespaced else ""
    with contextlib.suppress(StatusError):
        await client.patch(resource, name, {"metadata": {"finalizers": None}}, namespace)
    with contextlib.suppress(StatusError):
        await client.delete(resource, name, namespace, grace_seconds=0)
