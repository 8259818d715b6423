"""Status of FlowSchemas: whether the PriorityLevelConfiguration that they refer to exists.

A lab does not limit requests by them; kube-apiserver itself writes this status.
"""

from __future__ import annotations

from typing import Any, Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import FLOW_SCHEMAS, PRIORITY_LEVELS
from allotment.cluster.work_queue import WorkQueue
from allotment.model.quoting import quote
from allotment.model.trees import Tree

_MANAGER: Final = "api-priority-and-fairness-config-consumer-v1"


async def flow_schemas(context: ProgramContext) -> None:
    """Run the controller."""
    client = context.client_for("apiserver", _MANAGER)
    schemas = context.caches.trees(FLOW_SCHEMAS)
    levels = context.caches.trees(PRIORITY_LEVELS)

    async def write(name: str) -> None:
        schema = schemas.item("", name)
        if schema is None:
            return
        level = (schema.spec.get("priorityLevelConfiguration") or {}).get("name") or ""
        condition = _dangling(level, levels.item("", level) is not None)
        known = {each["type"]: each for each in schema.status.get("conditions") or ()}.get("Dangling") or {}
        if all(known.get(field) == value for field, value in condition.items()):
            return
        changed = known.get("status") != condition["status"]
        since = context.clock.now() if changed else known["lastTransitionTime"]
        conditions = [{**condition, "lastTransitionTime": since}]
        applied = {"apiVersion": FLOW_SCHEMAS.api_version, "kind": "FlowSchema", "metadata": {"name": name}}
        patch = {**applied, "status": {"conditions": conditions}}
        try:
            schemas.record_write(
                await client.patch(FLOW_SCHEMAS, name, patch, kind="apply", subresource="status", force=True)
            )
        except StatusError as error:
            if error.code != 404:
                raise

    queue: WorkQueue[str] = WorkQueue("flow-schemas", write, clock=context.clock, random=context.random)

    def schema_changed(old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None:
            queue.add(new.name)

    def level_changed(old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if old is None or new is None:
            for schema in schemas.items():
                queue.add(schema.name)

    await levels.synced.wait()
    await run_queues([queue], [(schemas, schema_changed), (levels, level_changed)])


def _dangling(level: str, exists: bool) -> Tree:
    """The condition Dangling without its time."""
    text = f"This FlowSchema references the PriorityLevelConfiguration object named {quote(level)}"
    if exists:
        return {"type": "Dangling", "status": "False", "reason": "Found", "message": f"{text} and it exists"}
    message = f"{text} but there is no such object"
    return {"type": "Dangling", "status": "True", "reason": "NotFound", "message": message}
