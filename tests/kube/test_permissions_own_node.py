"""A driver writes slices of its own node only: what its role allows for all nodes, its policy refuses for others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from allotment.cluster.client import Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.resources import SLICES
from allotment.model.trees import Tree
from allotment.tools.permissions.admission_policy import own_node_policy
from allotment.tools.permissions.components import COMPONENTS
from allotment.tools.permissions.roles import name_of
from tests.kube.permitted.ground import NODE, Ground, ground
from tests.kube.permitted.playing import until

_GROUP = "admissionregistration.k8s.io"
_POLICIES = Resource(_GROUP, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False)
_BINDINGS = Resource(_GROUP, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False)


@pytest.fixture(scope="module")
def here(paths: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with ground(paths, Path(tmp_path_factory.mktemp("audit"))) as found:
        yield found


def slice_of(name: str, node: str = "") -> Tree:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    where = {"nodeName": node} if node else {"allNodes": True}
    spec = {"driver": "gpu.nvidia.com", "pool": pool, "devices": [{"name": "gpu-0"}], **where}
    return {"metadata": {"name": name}, "spec": spec}


async def refusal(client: HttpClient, tree: Tree) -> str:
    """What the server says against a slice; empty if nothing."""
    try:
        await client.create(SLICES, tree, dry_run=True)
    except StatusError as error:
        return str(error)
    return ""


def test_a_driver_writes_slices_of_its_own_node_and_of_no_other(here: Ground) -> None:
    async def run() -> None:
        account = await here.account(COMPONENTS["driver"], "mine")
        async with here.client() as admin, HttpClient(account.target) as driver:
            assert await refusal(driver, slice_of("all", "theirs")) == "", "the role cannot tell nodes apart"
            policy, binding = own_node_policy(COMPONENTS["driver"], account=account.name)
            await admin.create(_POLICIES, policy)
            await admin.create(_BINDINGS, binding)

            async def heeded() -> str:
                return await refusal(driver, slice_of("others", "theirs"))

            async with asyncio.timeout(300):
                said = await until(heeded)
            assert said.endswith("the driver on node mine may write only slices of that node, not of node theirs")
            assert "not of all nodes" in await refusal(driver, slice_of("network"))
            mine = await driver.create(SLICES, slice_of("own", "mine"))
            mine["spec"]["devices"].append({"name": "gpu-1"})
            await driver.update(SLICES, mine)
            await driver.delete(SLICES, "own")
            (theirs,) = (await admin.list(SLICES, fields=f"spec.nodeName={NODE}")).items
            with pytest.raises(StatusError, match="not of node"):
                await driver.delete(SLICES, theirs["metadata"]["name"])
            with pytest.raises(StatusError, match="not of node"):
                await driver.update(SLICES, theirs)
            assert await refusal(admin, slice_of("by-others", "theirs")) == "", "nobody else is held to it"

    asyncio.run(run())


def test_a_token_that_is_of_no_pod_publishes_nothing(here: Ground) -> None:
    async def run() -> None:
        account = await here.account(COMPONENTS["driver"])
        async with here.client() as admin, HttpClient(account.target) as driver:
            part = COMPONENTS["driver"]._replace(name="driver-elsewhere")
            policy, binding = own_node_policy(part, account=account.name)
            assert policy["metadata"]["name"] == f"{name_of(part)}-own-node"
            await admin.create(_POLICIES, policy)
            await admin.create(_BINDINGS, binding)

            async def heeded() -> str:
                return await refusal(driver, slice_of("any", "mine"))

            async with asyncio.timeout(300):
                assert "the token does not belong to a pod on a node" in await until(heeded)

    asyncio.run(run())
