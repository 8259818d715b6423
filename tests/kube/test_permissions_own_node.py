"""A driver writes slices of its own node only: its role allows those of all nodes, and its policy denies the others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.resources import SLICES
from allotment.model.trees import Tree
from allotment.permissions.admission_policy import own_node_policy
from allotment.permissions.components import COMPONENTS
from allotment.permissions.roles import name_of
from tests.kube.permissions.environment import NODE, ScenarioCluster, running_cluster
from tests.kube.permissions.runner import wait_until

pytestmark = pytest.mark.every_release

_GROUP = "admissionregistration.k8s.io"
_POLICIES = Resource(_GROUP, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False)
_BINDINGS = Resource(_GROUP, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False)


@pytest.fixture(scope="module")
def cluster(paths: dict[str, str], release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScenarioCluster]:
    with running_cluster(paths, release, Path(tmp_path_factory.mktemp("audit"))) as found:
        yield found


def slice_of(name: str, node: str = "") -> Tree:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    where = {"nodeName": node} if node else {"allNodes": True}
    spec = {"driver": "gpu.nvidia.com", "pool": pool, "devices": [{"name": "gpu-0"}], **where}
    return {"metadata": {"name": name}, "spec": spec}


async def refusal(client: Client, tree: Tree) -> str:
    """The server's message when it denies a slice; empty if it accepts it."""
    try:
        await client.create(SLICES, tree, dry_run=True)
    except StatusError as error:
        return str(error)
    return ""


def test_a_driver_writes_only_slices_of_its_own_node(cluster: ScenarioCluster) -> None:
    async def run() -> None:
        account = await cluster.account(COMPONENTS["driver"], "own")
        async with cluster.client() as admin, HttpClient(account.target) as driver:
            assert await refusal(driver, slice_of("all", "other")) == "", "the role does not distinguish nodes"
            policy, binding = own_node_policy(COMPONENTS["driver"], account=account.name)
            await admin.create(_POLICIES, policy)
            await admin.create(_BINDINGS, binding)

            async def denied() -> str:
                return await refusal(driver, slice_of("others", "other"))

            async with asyncio.timeout(300):
                message = await wait_until(denied)
            assert message.endswith("the driver on node own may write only slices of that node, not of node other")
            assert "not of all nodes" in await refusal(driver, slice_of("network"))
            own_slice = await driver.create(SLICES, slice_of("own", "own"))
            own_slice["spec"]["devices"].append({"name": "gpu-1"})
            await driver.update(SLICES, own_slice)
            await driver.delete(SLICES, "own")
            (other_slice,) = (await admin.list(SLICES, fields=f"spec.nodeName={NODE}")).items
            with pytest.raises(StatusError, match="not of node"):
                await driver.delete(SLICES, other_slice["metadata"]["name"])
            with pytest.raises(StatusError, match="not of node"):
                await driver.update(SLICES, other_slice)
            allowed = await refusal(admin, slice_of("by-others", "other"))
            assert allowed == "", "the policy must not apply to other users"

    asyncio.run(run())


def test_a_token_without_a_pod_cannot_publish(cluster: ScenarioCluster) -> None:
    async def run() -> None:
        account = await cluster.account(COMPONENTS["driver"])
        async with cluster.client() as admin, HttpClient(account.target) as driver:
            component = COMPONENTS["driver"]._replace(name="driver-elsewhere")
            policy, binding = own_node_policy(component, account=account.name)
            assert policy["metadata"]["name"] == f"{name_of(component)}-own-node"
            await admin.create(_POLICIES, policy)
            await admin.create(_BINDINGS, binding)

            async def denied() -> str:
                return await refusal(driver, slice_of("any", "own"))

            async with asyncio.timeout(300):
                assert "the token does not belong to a pod on a node" in await wait_until(denied)

    asyncio.run(run())
