"""Jobs run pods until enough succeeded or too many failed, and count each pod once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cluster.resources import JOBS, PODS
from allotment.controllers.indexed_jobs import FAILURES, INDEX
from allotment.controllers.job_indexes import format_indexes, indexes_of, parse_indexes
from allotment.controllers.jobs import TRACKING, _Jobs, jobs
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.controllers.world import World, world


def job(**spec: Any) -> Tree:
    template = {
        "metadata": {"labels": {"job-name": "j"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"},
    }
    selector = {"matchLabels": {"job-name": "j"}}
    wanted = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed", **spec}
    return {"metadata": {"name": "j", "generation": 1}, "spec": {"template": template, "selector": selector, **wanted}}


def end(here: World, name: str, phase: str, code: int = 0) -> None:
    terminated = {"exitCode": code, "finishedAt": "2026-01-01T00:00:00Z"}
    containers = [{"name": "c", "state": {"terminated": terminated}}]
    here.change(PODS, name, status={"phase": phase, "containerStatuses": containers})


def status(here: World) -> Tree:
    found: Tree = here.get(JOBS, "j").get("status") or {}
    return found


def conditions(here: World) -> dict[str, str]:
    return {
        one["type"]: one.get("reason", "") for one in status(here).get("conditions") or () if one["status"] == "True"
    }


def active(here: World) -> list[str]:
    return [
        tree["metadata"]["name"]
        for tree in here.all(PODS)
        if tree.get("status", {}).get("phase") not in ("Succeeded", "Failed")
    ]


async def run_all(here: World, count: int, phase: str = "Succeeded", code: int = 0) -> None:
    """Finish a number of pods as they appear."""
    for _ in range(count):
        await here.until(lambda: active(here))
        end(here, active(here)[0], phase, code)


def test_a_job_is_complete_when_enough_pods_succeeded() -> None:
    async def story() -> None:
        async with world(jobs) as here:
            here.put(JOBS, job(parallelism=2, completions=5))
            await here.until(lambda: status(here).get("active") == 2)
            assert all(TRACKING in tree["metadata"]["finalizers"] for tree in here.all(PODS))
            await run_all(here, 5)
            await here.until(lambda: "Complete" in conditions(here))
            assert conditions(here) == {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}
            assert status(here)["succeeded"] == 5
            assert status(here)["uncountedTerminatedPods"] == {}
            assert "completionTime" in status(here)
            assert len(here.all(PODS)) == 5
            assert not any(tree["metadata"].get("finalizers") for tree in here.all(PODS))

    idle.run(story())


def test_finished_pods_are_counted_even_if_deleted() -> None:
    async def story() -> None:
        async with world(jobs) as here:
            here.put(JOBS, job(parallelism=3, completions=3))
            await here.until(lambda: status(here).get("active") == 3)
            for name in here.names(PODS):
                end(here, name, "Succeeded")
                await here.client.delete(PODS, name, "ns")
            await here.until(lambda: "Complete" in conditions(here))
            assert status(here)["succeeded"] == 3
            await here.until(lambda: not here.all(PODS))

    idle.run(story())


def test_failures_delay_new_pods_and_fail_the_job_at_the_limit() -> None:
    async def story() -> None:
        async with world(jobs) as here:
            here.put(JOBS, job(backoffLimit=2))
            await run_all(here, 3, "Failed", 1)
            await here.until(lambda: "Failed" in conditions(here))
            assert conditions(here) == {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"}
            assert status(here)["failed"] == 3
            await here.until(lambda: here.events("BackoffLimitExceeded"))

    idle.run(story())


def test_an_indexed_job_runs_each_index_once() -> None:
    async def story() -> None:
        async with world(jobs) as here:
            here.put(JOBS, job(parallelism=2, completions=4, completionMode="Indexed"))
            await here.until(lambda: len(active(here)) == 2)
            first = here.all(PODS)[0]
            assert first["metadata"]["generateName"] == "j-0-"
            assert first["spec"]["hostname"] == "j-0"
            assert first["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
            await run_all(here, 1)
            await here.until(lambda: status(here).get("completedIndexes") == "0")
            await run_all(here, 3)
            await here.until(lambda: "Complete" in conditions(here))
            assert status(here)["completedIndexes"] == "0-3"
            assert sorted(tree["metadata"]["annotations"][INDEX] for tree in here.all(PODS)) == ["0", "1", "2", "3"]

    idle.run(story())


def test_an_index_beyond_its_backoff_limit_fails_and_others_continue() -> None:
    async def story() -> None:
        async with world(jobs) as here:
            limits = {"backoffLimitPerIndex": 1, "backoffLimit": 1000}
            here.put(JOBS, job(parallelism=3, completions=3, completionMode="Indexed", **limits))
            await here.until(lambda: len(active(here)) == 3)
            assert status(here)["failedIndexes"] == ""
            for name in active(here):
                index = here.get(PODS, name)["metadata"]["annotations"][INDEX]
                end(here, name, "Failed" if index == "1" else "Succeeded", 1 if index == "1" else 0)
            await here.until(lambda: len(active(here)) == 1)
            again = here.get(PODS, active(here)[0])["metadata"]["annotations"]
            assert (again[INDEX], again[FAILURES]) == ("1", "1")
            end(here, active(here)[0], "Failed", 1)
            await here.until(lambda: conditions(here).get("Failed") == "FailedIndexes")
            assert (status(here)["completedIndexes"], status(here)["failedIndexes"]) == ("0,2", "1")
            assert (status(here)["succeeded"], status(here)["failed"]) == (2, 2)

    idle.run(story())


def test_too_many_failed_indexes_fail_a_job_immediately() -> None:
    async def story() -> None:
        async with world(jobs) as here:
            rule = {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}}
            limits = {"backoffLimitPerIndex": 5, "maxFailedIndexes": 0, "podFailurePolicy": {"rules": [rule]}}
            here.put(JOBS, job(parallelism=2, completions=2, completionMode="Indexed", **limits))
            await here.until(lambda: len(active(here)) == 2)
            end(here, active(here)[0], "Failed", 42)
            await here.until(lambda: conditions(here).get("FailureTarget") == "MaxFailedIndexesExceeded")
            assert status(here)["failedIndexes"] in ("0", "1")

    idle.run(story())


def test_a_suspended_job_has_no_pods_until_it_is_resumed() -> None:
    async def story() -> None:
        async with world(jobs) as here:
            here.put(JOBS, job(suspend=True))
            await here.until(lambda: "Suspended" in conditions(here))
            assert here.all(PODS) == []
            assert "startTime" not in status(here)
            here.change(JOBS, "j", spec=job()["spec"])
            await here.until(lambda: active(here))
            await here.until(lambda: "Suspended" not in conditions(here) and "startTime" in status(here))
            here.change(JOBS, "j", spec=job(suspend=True)["spec"])
            await here.until(lambda: not active(here))
            await here.until(lambda: "Suspended" in conditions(here))
            assert "failed" not in status(here), "what is withdrawn has not failed"

    idle.run(story())


def test_unneeded_pods_do_not_count_as_failed() -> None:
    async def story() -> None:
        async with world(jobs) as here:
            here.put(JOBS, job(parallelism=3, completions=3))
            await here.until(lambda: len(active(here)) == 3)
            here.change(JOBS, "j", spec=job(parallelism=1, completions=3)["spec"])
            await here.until(lambda: len(active(here)) == 1 and status(here).get("active") == 1)
            assert "failed" not in status(here)

    idle.run(story())


def test_an_exceeded_deadline_deletes_running_pods() -> None:
    async def story() -> None:
        async with world(jobs, speed=100) as here:
            here.put(JOBS, job(activeDeadlineSeconds=120))
            await here.until(lambda: active(here))
            await here.until(lambda: conditions(here).get("Failed") == "DeadlineExceeded")
            assert active(here) == []

    idle.run(story())


def test_a_failure_policy_can_fail_the_job_or_ignore_the_failure() -> None:
    async def story() -> None:
        async with world(jobs) as here:
            rules = [
                {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
                {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
            ]
            here.put(JOBS, job(backoffLimit=0, podFailurePolicy={"rules": rules}))
            await run_all(here, 2, "Failed", 7)
            assert "failed" not in status(here)
            await run_all(here, 1, "Failed", 42)
            await here.until(lambda: conditions(here).get("Failed") == "PodFailurePolicy")

    idle.run(story())


def test_a_finished_job_is_deleted_after_its_ttl() -> None:
    async def story() -> None:
        async with world(jobs, speed=100) as here:
            here.put(JOBS, job(ttlSecondsAfterFinished=120))
            await run_all(here, 1)
            await here.until(lambda: "Complete" in conditions(here))
            await here.until(lambda: here.get(JOBS, "j")["metadata"].get("deletionTimestamp"))

    idle.run(story())


def test_a_job_past_its_deadline_waits_for_its_last_pod_without_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    sync = _Jobs._sync

    async def counted(program: _Jobs, key: tuple[str, str]) -> float | None:
        looks.append(key[1])
        return await sync(program, key)

    monkeypatch.setattr(_Jobs, "_sync", counted)

    async def story() -> None:
        async with world(jobs, speed=100) as here:
            here.put(JOBS, job(activeDeadlineSeconds=120))
            await here.until(lambda: active(here))
            [name] = active(here)
            finalizers = [*here.get(PODS, name)["metadata"]["finalizers"], "example.com/wait"]
            here.change(PODS, name, metadata={"finalizers": finalizers})
            await here.until(lambda: "FailureTarget" in conditions(here))
            await here.settled()
            before = len(looks)
            await asyncio.sleep(5)
            assert len(looks) - before <= 1
            assert "Failed" not in conditions(here)
            here.remove(PODS, name)
            await here.until(lambda: conditions(here).get("Failed") == "DeadlineExceeded")

    idle.run(story())


MOST = 2**31 - 1


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"backoffLimitPerIndex": 1, "maxFailedIndexes": 10},
        {"successPolicy": {"rules": [{"succeededIndexes": f"1-{MOST - 1}"}]}},
    ],
)
def test_a_job_with_very_many_indexes_costs_no_more_than_its_pods(spec: Tree) -> None:
    async def story() -> None:
        async with world(jobs) as here:
            wanted = {"completionMode": "Indexed", "completions": MOST, "parallelism": 3, "backoffLimit": MOST, **spec}
            here.put(JOBS, {**job(**wanted), "status": {"completedIndexes": f"2-{MOST - 4}"}})
            await here.until(lambda: len(active(here)) == 3)
            indexes = {here.get(PODS, name)["metadata"]["annotations"][INDEX] for name in active(here)}
            assert indexes == {"0", "1", str(MOST - 3)}
            await run_all(here, 1)
            await here.until(lambda: len(active(here)) == 3)

    idle.run(story())


def test_a_job_with_many_pods_creates_them_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allotment.controllers.jobs._BURST", 5)

    async def story() -> None:
        async with world(jobs) as here:
            here.put(JOBS, job(parallelism=MOST, completions=MOST))
            while len(here.all(PODS)) <= 10:
                await asyncio.sleep(0)  # there is always more to do, so time does not advance

    idle.run(story())


NUMBERS = st.sets(st.integers(0, 40))


@given(NUMBERS, NUMBERS, st.integers(0, 45))
def test_indexes_are_sets_of_numbers(one: set[int], two: set[int], end: int) -> None:
    first, second = indexes_of(one), indexes_of(two)
    assert parse_indexes(format_indexes(first)) == first
    assert len(first) == len(one)
    assert [index in first for index in range(45)] == [index in one for index in range(45)]
    assert first | second == indexes_of(one | two)
    assert first & second == indexes_of(one & two)
    assert first.below(end) == indexes_of(index for index in one if index < end)
    assert list(first.absent(end)) == [index for index in range(end) if index not in one]
