"""The status of a FlowSchema states whether its priority level exists."""

from __future__ import annotations

from allotment.cluster.resources import FLOW_SCHEMAS, PRIORITY_LEVELS
from allotment.controllers.flow_schemas import flow_schemas
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.controllers.world import World, world


def dangling(cluster: World, name: str) -> tuple[str, str, str] | None:
    status: Tree = cluster.get(FLOW_SCHEMAS, name).get("status") or {}
    for condition in status.get("conditions") or ():
        return condition["status"], condition["reason"], condition["message"]
    return None


def test_a_schema_without_its_priority_level_is_dangling() -> None:
    text = 'This FlowSchema references the PriorityLevelConfiguration object named "low"'

    async def scenario() -> None:
        async with world(flow_schemas) as cluster:
            spec = {"priorityLevelConfiguration": {"name": "low"}}
            cluster.put(FLOW_SCHEMAS, {"metadata": {"name": "batch"}, "spec": spec})
            absent = ("True", "NotFound", f"{text} but there is no such object")
            await cluster.until(lambda: dangling(cluster, "batch") == absent)
            cluster.put(PRIORITY_LEVELS, {"metadata": {"name": "low"}, "spec": {"type": "Exempt"}})
            await cluster.until(lambda: dangling(cluster, "batch") == ("False", "Found", f"{text} and it exists"))
            cluster.remove(PRIORITY_LEVELS, "low")
            await cluster.until(lambda: dangling(cluster, "batch") == absent)

    idle.run(scenario())
