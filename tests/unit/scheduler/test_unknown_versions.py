"""Kinds that the cluster serves only in unknown versions: what depends on them waits, and reports why."""

from __future__ import annotations

from allotment.cluster.client import Listing, Resource
from allotment.cluster.errors import UnknownVersions
from allotment.cluster.resources import POD_GROUPS, TAINT_RULES
from tests.unit.cluster import idle
from tests.unit.scheduler.test_pod_groups import CLUSTER, ON, made, member
from tests.unit.scheduler.test_pod_groups import group as pod_group
from tests.unit.scheduler.world import SchedulingClient, claim, device_class, gpus, node, pod, world

WHY = "devicetaintrules cannot be read: served only in v2"


class NewerClient(SchedulingClient):
    """A cluster that serves a resource only in an unknown version, until it is upgraded."""

    def __init__(self, resource: Resource) -> None:
        super().__init__()
        self.unknown: Resource | None = resource

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0
    ) -> Listing:
        if resource == self.unknown:
            raise UnknownVersions(resource.plural, "served only in v2")
        return await super().list(resource, namespace, labels=labels, fields=fields, limit=limit)


def test_no_device_is_allocated_while_device_taints_are_unknown() -> None:
    async def scenario() -> None:
        client = NewerClient(TAINT_RULES)
        cluster = (node("a"), gpus("a", 1), device_class(extendedResourceName="example.com/gpu"), claim("one"))
        pods = (pod("p", "one"), pod("q", limits={"example.com/gpu": "1"}), pod("plain"))
        async with world(*cluster, *pods, client=client) as lab:
            for name in ("p", "q"):
                message = await lab.reported_message(name, "SchedulerError")
                assert f'running "DynamicResources" filter plugin: {WHY}' in message
            await lab.bound("plain")
            assert (lab.node_of("p"), lab.devices("one")) == ("", [])
            client.unknown = None
            await lab.until(lambda: lab.node_of("p") or lab.node_of("q"))

    idle.run(scenario())


def test_a_pod_whose_group_is_unreadable_waits_without_a_not_found_message() -> None:
    async def scenario() -> None:
        client = NewerClient(POD_GROUPS)
        async with world(*CLUSTER, made(), pod_group(), member("a"), features=ON, client=client) as lab:
            assert "podgroups cannot be read: served only in v2" in await lab.reported_message("a", "SchedulerError")
            client.unknown = None
            await lab.bound("a")

    idle.run(scenario())
