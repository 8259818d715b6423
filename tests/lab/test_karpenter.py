"""Machines through Karpenter: NodeClaims that Karpenter's own definition accepts, from order to deletion."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from decimal import Decimal
from random import Random
from typing import Any, ParamSpec

import pytest
import yaml
from msgspec.structs import replace

from allotment.autoscaler.options import AutoscalerOptions
from allotment.autoscaler.program import autoscaler
from allotment.autoscaler.provider import MachineStatus, OrderRejected
from allotment.autoscaler.providers.karpenter import NODE_CLAIMS, Karpenter, MigManager
from allotment.cluster.caches import Caches
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext, run
from allotment.cluster.recorder import Events
from allotment.cluster.resources import CONFIG_MAPS, CUSTOM_KINDS, NAMESPACES, NODES, SLICES
from allotment.fleet.catalog import catalog
from allotment.fleet.catalog.export.karpenter import NodeClass, karpenter_objects
from allotment.fleet.catalog.export.kwok import kwok_objects
from allotment.model.core import Node, Pod, Taint
from allotment.model.meta import Object, ObjectKey
from allotment.model.trees import to_tree
from allotment.packing.problem import KeepGoing
from allotment.planning.limits import PlanLimits
from allotment.planning.provisioning.nodeclaims import NodeClaimSettings, node_claims
from allotment.planning.report import PlannedMachine, PodPlacement, ProvisioningPlan
from tests.definitions import KARPENTER, definitions
from tests.lab import karpenter
from tests.lab.harness import LabHarness, lab_harness

P = ParamSpec("P")


def run_coroutine(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a coroutine as a test."""

    @functools.wraps(test)
    def run(*given: P.args, **named: P.kwargs) -> None:
        asyncio.run(test(*given, **named))

    return run


def planned_machine(
    name: str = "new-1", instance: str = "aws/g5.xlarge", form: str = "1xa10g", zone: str = "us-east-1a", **more: Any
) -> PlannedMachine:
    """A machine as the planner describes it."""
    return PlannedMachine(
        node=name,
        instance=instance,
        form=form,
        zone=zone,
        capacity_type="on-demand",
        usd_per_hour=Decimal("1.006"),
        drivers=("gpu.nvidia.com",) if form else (),
        **more,
    )


@asynccontextmanager
async def with_karpenter(*, controller: bool = True) -> AsyncIterator[tuple[LabHarness, karpenter.Karpenter]]:
    """A lab with Karpenter's kinds and its controller."""
    kinds = definitions(KARPENTER)
    async with lab_harness() as lab:
        for tree in kinds.values():
            await lab.client.create(CUSTOM_KINDS, tree)
        await wait_for_kinds(lab)
        fake = karpenter.Karpenter(lab.client)
        task = asyncio.create_task(fake.run()) if controller else None
        try:
            yield lab, fake
        finally:
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


async def wait_for_kinds(lab: LabHarness) -> None:
    """Wait until the new kinds are served."""
    async with asyncio.timeout(120):
        while True:
            with suppress(StatusError):
                await lab.client.list(NODE_CLAIMS)
                return
            await asyncio.sleep(0.005)


async def wait_for_machines(
    provider: Karpenter, true: Callable[[Sequence[MachineStatus]], bool]
) -> Sequence[MachineStatus]:
    """The provider's machines, once ``true`` holds for them."""
    found: Sequence[MachineStatus] = ()
    try:
        async with asyncio.timeout(120):
            while not true(found := await provider.list_machines()):
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"condition not met: {found}") from None
    return found


@run_coroutine
async def test_karpenters_definition_accepts_planned_machines() -> None:
    settings = NodeClaimSettings(
        termination_grace="2h30m",
        labels={"team": "ml"},
        taints=(Taint(key="nvidia.com/gpu", effect="NoSchedule"),),
        startup_taints=(Taint(key="example.com/agent-not-ready", value="true", effect="NoExecute"),),
    )
    machines = [
        planned_machine(),
        planned_machine("new-2", "aws/p4d.24xlarge", "8xa100-40gb/static-mig=1g.5gb:7"),
        planned_machine("new-3", "gcp/a2-highgpu-1g", "1xa100-40gb/dynamic-mig", zone=""),
        planned_machine(
            "new-4", "azure/Standard_D4s_v5", "", labels={"pool": "batch", "kubernetes.io/hostname": "new-4"}
        ),
    ]
    async with with_karpenter(controller=False) as (lab, _):
        for tree in node_claims(machines, settings):
            stored = await lab.client.create(NODE_CLAIMS, tree)
            assert stored["spec"] == tree["spec"]  # nothing was pruned, and no default differs from the order
            assert stored["metadata"]["labels"] == tree["metadata"]["labels"]


@run_coroutine
async def test_karpenters_definitions_accept_the_catalog() -> None:
    objects = karpenter_objects(catalog())
    assert {tree["kind"] for tree in objects} == {"NodePool", "NodeOverlay"}
    async with with_karpenter(controller=False) as (lab, _):
        for tree in objects:
            stored = await lab.create(tree)
            assert stored["spec"] == tree["spec"]


@run_coroutine
async def test_an_api_server_accepts_nodes_for_kwok() -> None:
    some = [instance for instance in catalog() if instance.key in ("aws/p4d.24xlarge", "gcp/g2-standard-4")]
    async with lab_harness() as lab:
        for value in kwok_objects(some, nodes=2):
            version, kind = ("v1", "Node") if isinstance(value, Node) else ("resource.k8s.io/v1", "ResourceSlice")
            await lab.create(to_tree(value, version, kind))
        assert len((await lab.client.list(NODES)).items) == 4
        assert {tree["spec"]["pool"]["name"] for tree in (await lab.client.list(SLICES)).items} == {
            tree["metadata"]["name"] for tree in (await lab.client.list(NODES)).items
        }


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "nodeClassRef", "name"), ""),
        (("spec", "requirements"), [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]),
        (("spec", "requirements"), [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": []}]),
        (("spec", "expireAfter"), "soon"),
    ],
)
@run_coroutine
async def test_values_that_karpenter_does_not_support_are_rejected(path: tuple[str, ...], value: Any) -> None:
    (tree,) = node_claims([planned_machine()])
    at = tree
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = value
    async with with_karpenter(controller=False) as (lab, _):
        with pytest.raises(StatusError, match=r"NodeClaim.* is invalid"):
            await lab.client.create(NODE_CLAIMS, tree)


@run_coroutine
async def test_a_machine_from_order_to_deletion() -> None:
    async with with_karpenter() as (lab, fake):
        provider = Karpenter(lab.client)
        fake.held = "Registered"
        await provider.create("g5-1", planned_machine())
        await provider.create("g5-1", planned_machine())  # ordered twice, created once
        (machine,) = await wait_for_machines(provider, lambda found: found[0].state == "starting")
        assert (machine.name, machine.instance, machine.zone, machine.node) == (
            "g5-1",
            "aws/g5.xlarge",
            "us-east-1a",
            "",
        )
        fake.held = ""
        (machine,) = await wait_for_machines(provider, lambda found: found[0].state == "running")
        assert machine.node == "ip-g5-1"
        node = await lab.client.get(NODES, "ip-g5-1")
        assert node["metadata"]["annotations"]["karpenter.sh/requested-dra-drivers"] == "gpu.nvidia.com"
        async with asyncio.timeout(120):
            while not [s for s in (await lab.client.list(SLICES)).items if s["spec"].get("nodeName") == "ip-g5-1"]:
                await asyncio.sleep(0.01)
        # Another autoscaler process, without memory of it, finds it.
        again = Karpenter(lab.client)
        assert [(s.name, s.state) for s in await again.list_machines()] == [("g5-1", "running")]
        await provider.delete("g5-1")
        await provider.delete("g5-1")
        await wait_for_machines(provider, lambda found: not found)
        assert fake.launched == ["g5.xlarge"]


@run_coroutine
async def test_missing_capacity_is_reported_with_karpenters_reason() -> None:
    async with with_karpenter() as (lab, fake):
        provider = Karpenter(lab.client)
        fake.unavailable.add("g5.xlarge")
        await provider.create("g5-1", planned_machine())
        (machine,) = await wait_for_machines(
            provider, lambda found: found[0].state == "failed" and bool(found[0].reason)
        )
        found = await wait_for_machines(provider, lambda found: "InsufficientCapacityError" in found[0].reason)
        assert found[0].reason.endswith("all requested instance types were unavailable: g5.xlarge")
        assert (machine.instance, machine.zone, machine.capacity_type) == ("aws/g5.xlarge", "us-east-1a", "on-demand")
        assert found[0].is_shortage  # nothing was paid for it
        await provider.delete("g5-1")
        assert await provider.list_machines() == []


@run_coroutine
async def test_mig_layouts_exist_before_the_node() -> None:
    async with with_karpenter() as (lab, _):
        provider = Karpenter(lab.client, mig=MigManager())
        machine = planned_machine("m", "aws/p4d.24xlarge", "8xa100-40gb/static-mig=1g.5gb:7")
        with pytest.raises(OrderRejected, match="gpu-operator"):
            await provider.create("p4d-1", machine)
        assert (await lab.client.list(NODE_CLAIMS)).items == []
        await lab.client.create(NAMESPACES, {"metadata": {"name": "gpu-operator"}})
        await provider.create("p4d-1", machine)
        other = planned_machine("m", "aws/p4d.24xlarge", "8xa100-40gb/static-mig=3g.20gb:2")
        await provider.create("p4d-2", other)
        await wait_for_machines(provider, lambda found: [s.state for s in found] == ["running", "running"])
        stored = await lab.client.get(CONFIG_MAPS, "allotment-mig-parted-config", "gpu-operator")
        configs = yaml.safe_load(stored["data"]["config.yaml"])["mig-configs"]
        for name, expected in (("ip-p4d-1", {"1g.5gb": 7}), ("ip-p4d-2", {"3g.20gb": 2})):
            node = await lab.client.get(NODES, name)
            (entry,) = configs[node["metadata"]["labels"]["nvidia.com/mig.config"]]
            assert entry == {"devices": list(range(8)), "mig-enabled": True, "mig-devices": expected}


@run_coroutine
async def test_machines_that_cannot_be_ordered_are_reported() -> None:
    async with lab_harness() as lab:
        with pytest.raises(OrderRejected, match="Karpenter is not installed"):
            await Karpenter(lab.client).create("g5-1", planned_machine())
        with pytest.raises(OrderRejected, match="no NodeClass for machines of lambda; set one as GROUP/KIND/NAME"):
            await Karpenter(lab.client).create("l-1", planned_machine(instance="lambda/gpu_1x_a10"))


@run_coroutine
async def test_an_object_of_another_owner_is_not_adopted() -> None:
    async with with_karpenter(controller=False) as (lab, _):
        other = NodeClaimSettings(owner="other", node_classes={"lambda": NodeClass(group="a.io", kind="Any")})
        (tree,) = node_claims([planned_machine("g5-1", "lambda/gpu_1x_a10")], other)
        await lab.client.create(NODE_CLAIMS, tree)
        provider = Karpenter(lab.client)
        with pytest.raises(OrderRejected, match="already exists and belongs to other"):
            await provider.create("g5-1", planned_machine())
        assert await provider.list_machines() == []


# --- with the autoscaler -----------------------------------------------------------------------------------------

TYPES = tuple(instance for key in ("aws/g4dn.xlarge", "aws/g5.xlarge") for instance in catalog() if instance.key == key)
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "gpu", "namespace": "default"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "serving", "namespace": "default"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "serving"}},
        "template": {
            "metadata": {"labels": {"app": "serving"}},
            "spec": {
                "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
            },
        },
    },
}


def cheapest(values: Sequence[Object], limits: PlanLimits, keep_going: KeepGoing, /) -> ProvisioningPlan:
    """A machine for every pending pod without one, of the first available type."""
    short = {instance for instance, _, _ in limits.unavailable}
    kind = next(type_ for type_ in TYPES if type_.key not in short)
    waiting = [v for v in values if isinstance(v, Pod) and not v.spec.node_name and not v.status.nominated_node_name]
    machines = []
    for number, pod in enumerate(waiting):
        placement = PodPlacement(pod=ObjectKey(pod.metadata.namespace, pod.metadata.name), node=f"new-{number}")
        changes = {"node": f"new-{number}", "instance": kind.key, "form": kind.hardware, "placements": (placement,)}
        machines.append(replace(planned_machine(), **changes))
    return ProvisioningPlan(machines=tuple(machines))


@run_coroutine
async def test_a_pending_pod_runs_on_a_karpenter_machine_and_other_types_are_tried() -> None:
    async with with_karpenter() as (lab, fake):
        fake.unavailable.add("g4dn.xlarge")  # the cheaper one
        options = AutoscalerOptions(
            provider=lambda context: Karpenter(context.client_for("allotment-autoscaler")),
            catalog=TYPES, features=lab.plane.settings.features, planner=cheapest, consolidation="never",
        )  # fmt: skip
        clock, random = lab.plane.clock, Random(1)
        caches = Caches(lab.client, clock=clock, random=random)
        context = ProgramContext(lab.plane.client_for, caches, clock, Events(lab.client, clock=clock), random)
        task = asyncio.create_task(run({"autoscaler": autoscaler(options)}, context))
        try:
            await lab.create(TEMPLATE)
            await lab.create(DEPLOYMENT)
            (pod,) = await lab.running("default", 1)
            node = await lab.client.get(NODES, pod["spec"]["nodeName"])
            assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "g5.xlarge"
            assert node["metadata"]["labels"]["allotment.dev/autoscaler"] == "allotment"
            assert await lab.devices(pod) == ["gpu-0"]
            assert fake.launched == ["g5.xlarge"]
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
