"""No state is kept of deleted pods and claims, so that a scheduler can run for months."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from types import FunctionType, MethodType
from typing import Any

import pytest

from allotment.cluster.program import ProgramContext, run
from allotment.cluster.recorder import Events
from allotment.cluster.resources import CLAIMS, PODS
from allotment.scheduler.program import Scheduler, SchedulerOptions
from tests.unit.cluster import idle
from tests.unit.cluster.memory import refusal
from tests.unit.scheduler.world import (
    FEATURES,
    NAMESPACE,
    SchedulingClient,
    World,
    claim,
    context_of,
    device_class,
    gpus,
    node,
    pod,
)

SLOW = gpus("a", 2, bindsToNode=True, bindingConditions=["ready"], bindingFailureConditions=["broken"])
POD, CLAIM = "the-pod", "the-claim"


def children_of(value: object) -> Iterable[object]:
    """Return the objects that an object of the project references."""
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, MethodType):
        return [value.__self__]
    if isinstance(value, FunctionType):
        return [cell.cell_contents for cell in value.__closure__ or ()]
    if isinstance(value, list | tuple | set | frozenset | deque):
        return list(value)
    if not type(value).__module__.startswith("allotment."):
        return []
    if hasattr(value, "__dict__"):
        return list(vars(value).values())
    slots = (slot for type_ in type(value).__mro__ for slot in getattr(type_, "__slots__", ()))
    return [getattr(value, slot) for slot in slots if hasattr(value, slot)]


def paths_to(scheduler: Scheduler, names: set[object]) -> list[str]:
    """Return the paths on which any of these names is kept, apart from recent events."""
    found: list[str] = []
    seen: set[int] = set()
    left: list[tuple[str, object]] = [("scheduler", scheduler)]
    while left:
        path, value = left.pop()
        if isinstance(value, str):
            if value in names:
                found.append(path)
        elif id(value) not in seen and not isinstance(value, Events | SchedulingClient):
            seen.add(id(value))
            left += [(f"{path} > {type(value).__name__}", part) for part in children_of(value)]
    return found


@asynccontextmanager
async def scheduling() -> AsyncIterator[tuple[World, Scheduler]]:
    lab, made = World(SchedulingClient()), list[Scheduler]()
    for resource, tree in (node("a"), node("b"), gpus("b", 1), SLOW, device_class()):
        lab.put(resource, tree)

    async def program(context: ProgramContext) -> None:
        made.append(Scheduler(context, SchedulerOptions(FEATURES)))
        await made[0].run()

    task = asyncio.create_task(run({"scheduler": program}, context_of(lab.client, 20)))
    await lab.until(lambda: made)
    try:
        yield lab, made[0]
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _bound(lab: World) -> None:
    lab.put(*claim(CLAIM))
    lab.put(*pod(POD, CLAIM, nodeSelector={"kubernetes.io/hostname": "b"}))
    await lab.bound(POD)


async def _waiting_for_its_device(lab: World) -> None:
    lab.put(*claim(CLAIM))
    lab.put(*pod(POD, CLAIM, nodeSelector={"kubernetes.io/hostname": "a"}))
    await lab.until(lambda: lab.events("BindingConditionsPending"))


async def _device_failed(lab: World) -> None:
    await _waiting_for_its_device(lab)
    tree = lab.claim(CLAIM)
    (result,) = tree["status"]["allocation"]["devices"]["results"]
    device = {key: result[key] for key in ("driver", "pool", "device")}
    broken = {**device, "conditions": [{"type": "broken", "status": "True"}]}
    lab.client.remove(PODS, NAMESPACE, POD)
    lab.put(CLAIMS, {**tree, "status": {**tree["status"], "devices": [broken]}})
    await lab.until(lambda: not lab.users(CLAIM))


async def _unschedulable(lab: World) -> None:
    lab.put(*claim(CLAIM, count=9))
    lab.put(*pod(POD, CLAIM))
    await lab.reported_message(POD)


async def _binding_rejected(lab: World) -> None:
    lab.client.refuse_binding = [refusal(500, "InternalError")] * 2
    lab.put(*claim(CLAIM))
    lab.put(*pod(POD, CLAIM, nodeSelector={"kubernetes.io/hostname": "b"}))
    await lab.until(lambda: not lab.client.refuse_binding)


async def _claim_missing(lab: World) -> None:
    lab.put(*claim(CLAIM))
    lab.put(*pod(POD, CLAIM, "never-made"))
    await lab.until(lambda: lab.events("FailedScheduling"))


@pytest.mark.parametrize(
    "fate", [_bound, _waiting_for_its_device, _device_failed, _unschedulable, _binding_rejected, _claim_missing]
)
def test_no_state_is_kept_of_a_deleted_pod(fate: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def scenario() -> None:
        async with scheduling() as (lab, scheduler):
            await fate(lab)
            names: set[object] = {POD, CLAIM, lab.claim(CLAIM)["metadata"]["uid"]}
            if (PODS, NAMESPACE, POD) in lab.client.objects:
                names.add(lab.pod(POD)["metadata"]["uid"])
                assert paths_to(scheduler, names)
                lab.end(POD)
            lab.client.remove(CLAIMS, NAMESPACE, CLAIM)
            with suppress(TimeoutError):
                async with asyncio.timeout(5):
                    while paths_to(scheduler, names):
                        await asyncio.sleep(0.005)
            assert paths_to(scheduler, names) == []

    idle.run(scenario())
