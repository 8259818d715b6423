"""What only a real API server does to a client: fair queueing, a kill -9 under open watches, tokens that end."""

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
    """An API server, and nobody else who asks it."""
    with api_server(paths, durable=False) as running:
        yield running


async def account(client: HttpClient, name: str) -> None:
    """A service account that has all with config maps."""
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": name}}, "default")
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}
    await client.create(ROLES, {"metadata": {"name": name}, "rules": [rule]})
    await client.create(BINDINGS, {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    })  # fmt: skip


def test_priority_and_fairness_is_obeyed(kube: ApiServer) -> None:
    """A level with no seats lets one request through at a time and refuses the others: they come later, and all do."""

    async def story() -> None:
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
            asked = kube.client(
                token=kube.token_of("crowd"), on_answer=lambda _, code, __: codes.append(code), retry_seconds=600
            )
            async with asked as crowd:
                # Its own configuration reaches the server by a watch; and they may happen to come one by one.
                for again in itertools.count(1):
                    trees = [
                        {"metadata": {"name": f"crowd-{again}-{number}"}, "data": {"x": "x" * 200_000}}
                        for number in range(16)
                    ]
                    await asyncio.gather(*(crowd.create(CONFIG_MAPS, tree, "default") for tree in trees))
                    assert codes.count(201) == 16 * again
                    if 429 in codes:
                        break
            assert set(codes) == {201, 429}
            await admin.delete(SCHEMAS, "crowd")
            await admin.delete(LEVELS, "crowd")

    asyncio.run(asyncio.wait_for(story(), 600))


def test_a_token_that_ends_is_told_and_a_fresh_one_goes_on(kube: ApiServer) -> None:
    async def story() -> None:
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

    asyncio.run(asyncio.wait_for(story(), 600))


def test_a_server_that_is_killed_is_waited_for_and_nothing_is_missed(kube: ApiServer) -> None:
    """kill -9 of kube-apiserver under caches and writers; it comes back with the same etcd."""

    async def story() -> None:
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
            wanted = {f"kept-{number}" for number in range(4)}
            while {item.name for item in cache.items()} != wanted:
                await asyncio.sleep(0.02)
            following.cancel()
            await asyncio.wait([following])
            assert "gone" not in changes
            assert sorted(changes) == sorted(wanted)  # each once: neither lost nor told twice

    asyncio.run(asyncio.wait_for(story(), 600))
