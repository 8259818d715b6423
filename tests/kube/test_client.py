"""Client behaviour against a real API server: priority and fairness, kill -9 under open watches, expired tokens."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from random import Random

import pytest

from allotment.cluster.cache import Cache
from allotment.cluster.client import Resource
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.resources import CONFIG_MAPS, SERVICE_ACCOUNTS
from allotment.model.trees import Tree
from bench.real_kube import ApiServer, api_server

_FLOWS = "flowcontrol.apiserver.k8s.io"
LEVELS = Resource(_FLOWS, "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", False)
SCHEMAS = Resource(_FLOWS, "v1", "flowschemas", "FlowSchema", False)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False)


@pytest.fixture(scope="module")
def kube(paths: dict[str, str]) -> Iterator[ApiServer]:
    """An API server without other clients."""
    with api_server(paths, durable=False) as running:
        yield running


async def account(client: HttpClient, name: str) -> None:
    """Create a service account with all permissions on config maps."""
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": name}}, "default")
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}
    await client.create(ROLES, {"metadata": {"name": name}, "rules": [rule]})
    await client.create(BINDINGS, {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    })  # fmt: skip


def test_requests_rejected_by_priority_and_fairness_are_retried(kube: ApiServer) -> None:
    """A priority level with no seats admits one request at a time and rejects the others: they are retried, and all
    succeed."""

    async def scenario() -> None:
        async with kube.client() as admin:
            await account(admin, "crowd")
            limited = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
                       "limitResponse": {"type": "Reject"}}  # fmt: skip
            await admin.create(LEVELS, {"metadata": {"name": "crowd"}, "spec": {"type": "Limited", "limited": limited}})
            rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "namespaces": ["*"]}]
            subject = {"kind": "ServiceAccount", "serviceAccount": {"name": "crowd", "namespace": "default"}}
            await admin.create(SCHEMAS, {
                "metadata": {"name": "crowd"},
                "spec": {
                    "matchingPrecedence": 2, "priorityLevelConfiguration": {"name": "crowd"},
                    "rules": [{"subjects": [subject], "resourceRules": rules}],
                },
            })  # fmt: skip
            codes: list[int] = []
            requester = kube.client(
                token=kube.token_of("crowd"), on_answer=lambda _, code, __: codes.append(code), retry_seconds=600
            )
            async with requester as clients:
                # The server reads its own configuration through a watch; and the requests may arrive one at a time.
                for again in itertools.count(1):
                    trees = [
                        {"metadata": {"name": f"crowd-{again}-{number}"}, "data": {"x": "x" * 200_000}}
                        for number in range(16)
                    ]
                    await asyncio.gather(*(clients.create(CONFIG_MAPS, tree, "default") for tree in trees))
                    assert codes.count(201) == 16 * again
                    if 429 in codes:
                        break
            assert set(codes) == {201, 429}
            await admin.delete(SCHEMAS, "crowd")
            await admin.delete(LEVELS, "crowd")

    asyncio.run(asyncio.wait_for(scenario(), 600))


def test_an_expired_token_is_an_error_until_it_is_replaced(kube: ApiServer) -> None:
    async def scenario() -> None:
        async with kube.client() as admin:
            await account(admin, "passer")
        path = kube.folder / "token"
        path.write_text("no token at all")
        target = kube.target()._replace(token="", token_file=path)
        async with HttpClient(target) as client:
            with pytest.raises(StatusError) as raised:
                await client.list(CONFIG_MAPS, "default")
            assert (raised.value.code, raised.value.reason) == (401, "Unauthorized")
            path.write_text(kube.token_of("passer"))
            assert (await client.list(CONFIG_MAPS, "default")).revision

    asyncio.run(asyncio.wait_for(scenario(), 600))


def test_clients_wait_for_a_killed_server_and_miss_no_change(kube: ApiServer) -> None:
    """kill -9 of kube-apiserver under caches and writers; it restarts with the same etcd."""

    async def scenario() -> None:
        async with kube.client("followed") as client, kube.client("writer", retry_seconds=600) as writer:
            cache: Cache[Tree] = Cache(
                client, CONFIG_MAPS, clock=Clock(), random=Random(), namespace="default", labels="of=us"
            )
            changes: list[str] = []
            cache.on_change(lambda old, new: changes.append(new.name if new else "gone"))
            following = asyncio.create_task(cache.run())
            await cache.synced.wait()

            async def write(number: int) -> None:
                tree = {"metadata": {"name": f"kept-{number}", "labels": {"of": "us"}}}
                await writer.patch(
                    CONFIG_MAPS, f"kept-{number}", {**tree, "apiVersion": "v1", "kind": "ConfigMap"}, "default",
                    kind="apply",
                )  # fmt: skip

            await write(0)
            restart = kube.kill_server()
            writing = asyncio.create_task(write(1))
            with pytest.raises(Unreachable):
                async with kube.client(retry_seconds=0) as stranger:
                    await stranger.list(CONFIG_MAPS, "default")
            assert not writing.done()
            await asyncio.to_thread(restart)
            await writing
            for number in (2, 3):
                await write(number)
            expected = {f"kept-{number}" for number in range(4)}
            while {item.name for item in cache.items()} != expected:
                await asyncio.sleep(0.02)
            following.cancel()
            await asyncio.wait([following])
            assert "gone" not in changes
            assert sorted(changes) == sorted(expected)  # each exactly once: none lost, none repeated

    asyncio.run(asyncio.wait_for(scenario(), 600))
