"""Jobs run pods until enough succeeded or too many failed, and count each pod once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cluster.resources import JOBS, PODS
from allotment.controllers.job_failures import FAILURES, INDEX
from allotment.controllers.job_indexes import format_indexes, indexes_of, parse_indexes
from allotment.controllers.job_progress import TRACKING
from allotment.controllers.jobs import _Jobs, jobs
from allotment.model.features import Features
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.controllers.world import World, world

CONTROLLER = jobs(Features("1.36"))


def job(**spec: Any) -> Tree:
    template = {
        "metadata": {"labels": {"job-name": "j"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"},
    }
    selector = {"matchLabels": {"job-name": "j"}}
    wanted = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed", **spec}
    return {"metadata": {"name": "j", "generation": 1}, "spec": {"template": template, "selector": selector, **wanted}}


def end(cluster: World, name: str, phase: str, code: int = 0) -> None:
    terminated = {"exitCode": code, "finishedAt": "2026-01-01T00:00:00Z"}
    containers = [{"name": "c", "state": {"terminated": terminated}}]
    cluster.change(PODS, name, status={"phase": phase, "containerStatuses": containers})


def status(cluster: World) -> Tree:
    found: Tree = cluster.get(JOBS, "j").get("status") or {}
    return found


def conditions(cluster: World) -> dict[str, str]:
    return {
        condition["type"]: condition.get("reason", "")
        for condition in status(cluster).get("conditions") or ()
        if condition["status"] == "True"
    }


def active(cluster: World) -> list[str]:
    return [
        tree["metadata"]["name"]
        for tree in cluster.all(PODS)
        if tree.get("status", {}).get("phase") not in ("Succeeded", "Failed")
    ]


async def run_all(cluster: World, count: int, phase: str = "Succeeded", code: int = 0) -> None:
    """Finish a number of pods as they appear."""
    for _ in range(count):
        await cluster.until(lambda: active(cluster))
        end(cluster, active(cluster)[0], phase, code)


def test_a_job_is_complete_when_enough_pods_succeeded() -> None:
    async def scenario() -> None:
        async with world(CONTROLLER) as cluster:
            cluster.put(JOBS, job(parallelism=2, completions=5))
            await cluster.until(lambda: status(cluster).get("active") == 2)
            assert all(TRACKING in tree["metadata"]["finalizers"] for tree in cluster.all(PODS))
            await run_all(cluster, 5)
            await cluster.until(lambda: "Complete" in conditions(cluster))
            assert conditions(cluster) == {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}
            assert status(cluster)["succeeded"] == 5
            assert status(cluster)["uncountedTerminatedPods"] == {}
            assert "completionTime" in status(cluster)
            assert len(cluster.all(PODS)) == 5
            assert not any(tree["metadata"].get("finalizers") for tree in cluster.all(PODS))

    idle.run(scenario())


def test_a_pod_whose_labels_are_removed_can_be_deleted() -> None:
    """The Job no longer counts it, so nothing else would remove the finalizer."""

    async def scenario() -> None:
        async with world(CONTROLLER) as cluster:
            cluster.put(JOBS, job())
            await cluster.until(lambda: active(cluster))
            name = active(cluster)[0]
            cluster.change(PODS, name, metadata={**cluster.get(PODS, name)["metadata"], "labels": {}})
            await cluster.until(lambda: not cluster.get(PODS, name)["metadata"].get("finalizers"))
            assert not cluster.get(PODS, name)["metadata"].get("ownerReferences")

    idle.run(scenario())


def test_finished_pods_are_counted_even_if_deleted() -> None:
    async def scenario() -> None:
        async with world(CONTROLLER) as cluster:
            cluster.put(JOBS, job(parallelism=3, completions=3))
            await cluster.until(lambda: status(cluster).get("active") == 3)
            for name in cluster.names(PODS):
                end(cluster, name, "Succeeded")
                await cluster.client.delete(PODS, name, "ns")
            await cluster.until(lambda: "Complete" in conditions(cluster))
            assert status(cluster)["succeeded"] == 3
            await cluster.until(lambda: not cluster.all(PODS))

    idle.run(scenario())


def test_failures_delay_new_pods_and_fail_the_job_at_the_limit() -> None:
    async def scenario() -> None:
        async with world(CONTROLLER) as cluster:
            cluster.put(JOBS, job(backoffLimit=2))
            await run_all(cluster, 3, "Failed", 1)
            await cluster.until(lambda: "Failed" in conditions(cluster))
            assert conditions(cluster) == {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"}
            assert status(cluster)["failed"] == 3
            await cluster.until(lambda: cluster.events("BackoffLimitExceeded"))

    idle.run(scenario())


def test_an_indexed_job_runs_each_index_once() -> None:
    async def scenario() -> None:
        async with world(CONTROLLER) as cluster:
            cluster.put(JOBS, job(parallelism=2, completions=4, completionMode="Indexed"))
            await cluster.until(lambda: len(active(cluster)) == 2)
            first = cluster.all(PODS)[0]
            assert first["metadata"]["generateName"] == "j-0-"
            assert first["spec"]["hostname"] == "j-0"
            assert first["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
            await run_all(cluster, 1)
            await cluster.until(lambda: status(cluster).get("completedIndexes") == "0")
            await run_all(cluster, 3)
            await cluster.until(lambda: "Complete" in conditions(cluster))
            assert status(cluster)["completedIndexes"] == "0-3"
            assert sorted(tree["metadata"]["annotations"][INDEX] for tree in cluster.all(PODS)) == ["0", "1", "2", "3"]

    idle.run(scenario())


def test_an_index_beyond_its_backoff_limit_fails_and_others_continue() -> None:
    async def scenario() -> None:
        async with world(CONTROLLER) as cluster:
            limits = {"backoffLimitPerIndex": 1, "backoffLimit": 1000}
            cluster.put(JOBS, job(parallelism=3, completions=3, completionMode="Indexed", **limits))
            await cluster.until(lambda: len(active(cluster)) == 3)
            assert status(cluster)["failedIndexes"] == ""
            for name in active(cluster):
                index = cluster.get(PODS, name)["metadata"]["annotations"][INDEX]
                end(cluster, name, "Failed" if index == "1" else "Succeeded", 1 if index == "1" else 0)
            await cluster.until(lambda: len(active(cluster)) == 1)
            again = cluster.get(PODS, active(cluster)[0])["metadata"]["annotations"]
            assert (again[INDEX], again[FAILURES]) == ("1", "1")
            end(cluster, active(cluster)[0], "Failed", 1)
            await cluster.until(lambda: conditions(cluster).get("Failed") == "FailedIndexes")
            assert (status(cluster)["completedIndexes"], status(cluster)["failedIndexes"]) == ("0,2", "1")
            assert (status(cluster)["succeeded"], status(cluster)["failed"]) == (2, 2)

    idle.run(scenario())


def test_too_many_failed_indexes_fail_a_job_immediately() -> None:
    async def scenario() -> None:
        async with world(CONTROLLER) as cluster:
            rule = {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}}
            limits = {"backoffLimitPerIndex": 5, "maxFailedIndexes": 0, "podFailurePolicy": {"rules": [rule]}}
            cluster.put(JOBS, job(parallelism=2, completions=2, completionMode="Indexed", **limits))
            await cluster.until(lambda: len(active(cluster)) == 2)
            end(cluster, active(cluster)[0], "Failed", 42)
            await cluster.until(lambda: conditions(cluster).get("FailureTarget") == "MaxFailedIndexesExceeded")
            assert status(cluster)["failedIndexes"] in ("0", "1")

    idle.run(scenario())


def test_a_suspended_job_has_no_pods_until_it_is_resumed() -> None:
    async def scenario() -> None:
        async with world(CONTROLLER) as cluster:
            cluster.put(JOBS, job(suspend=True))
            await cluster.until(lambda: "Suspended" in conditions(cluster))
            assert cluster.all(PODS) == []
            assert "startTime" not in status(cluster)
            cluster.change(JOBS, "j", spec=job()["spec"])
            await cluster.until(lambda: active(cluster))
            await cluster.until(lambda: "Suspended" not in conditions(cluster) and "startTime" in status(cluster))
            cluster.change(JOBS, "j", spec=job(suspend=True)["spec"])
            await cluster.until(lambda: not active(cluster))
            await cluster.until(lambda: "Suspended" in conditions(cluster))
            assert "failed" not in status(cluster), "deleted pods are not failed ones"

    idle.run(scenario())


def test_unneeded_pods_do_not_count_as_failed() -> None:
    async def scenario() -> None:
        async with world(CONTROLLER) as cluster:
            cluster.put(JOBS, job(parallelism=3, completions=3))
            await cluster.until(lambda: len(active(cluster)) == 3)
            cluster.change(JOBS, "j", spec=job(parallelism=1, completions=3)["spec"])
            await cluster.until(lambda: len(active(cluster)) == 1 and status(cluster).get("active") == 1)
            assert "failed" not in status(cluster)

    idle.run(scenario())


def test_an_exceeded_deadline_deletes_running_pods() -> None:
    async def scenario() -> None:
        async with world(CONTROLLER, speed=100) as cluster:
            cluster.put(JOBS, job(activeDeadlineSeconds=120))
            await cluster.until(lambda: active(cluster))
            await cluster.until(lambda: conditions(cluster).get("Failed") == "DeadlineExceeded")
            assert active(cluster) == []

    idle.run(scenario())


def test_a_failure_policy_can_fail_the_job_or_ignore_the_failure() -> None:
    async def scenario() -> None:
        async with world(CONTROLLER) as cluster:
            rules = [
                {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
                {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
            ]
            cluster.put(JOBS, job(backoffLimit=0, podFailurePolicy={"rules": rules}))
            await run_all(cluster, 2, "Failed", 7)
            assert "failed" not in status(cluster)
            await run_all(cluster, 1, "Failed", 42)
            await cluster.until(lambda: conditions(cluster).get("Failed") == "PodFailurePolicy")

    idle.run(scenario())


def test_a_finished_job_is_deleted_after_its_ttl() -> None:
    async def scenario() -> None:
        async with world(CONTROLLER, speed=100) as cluster:
            cluster.put(JOBS, job(ttlSecondsAfterFinished=120))
            await run_all(cluster, 1)
            await cluster.until(lambda: "Complete" in conditions(cluster))
            await cluster.until(lambda: cluster.get(JOBS, "j")["metadata"].get("deletionTimestamp"))

    idle.run(scenario())


def test_a_job_past_its_deadline_waits_for_its_last_pod_without_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    sync = _Jobs._sync

    async def counted(program: _Jobs, key: tuple[str, str]) -> float | None:
        looks.append(key[1])
        return await sync(program, key)

    monkeypatch.setattr(_Jobs, "_sync", counted)

    async def scenario() -> None:
        async with world(CONTROLLER, speed=100) as cluster:
            cluster.put(JOBS, job(activeDeadlineSeconds=120))
            await cluster.until(lambda: active(cluster))
            [name] = active(cluster)
            finalizers = [*cluster.get(PODS, name)["metadata"]["finalizers"], "example.com/wait"]
            cluster.change(PODS, name, metadata={"finalizers": finalizers})
            await cluster.until(lambda: "FailureTarget" in conditions(cluster))
            await cluster.settled()
            before = len(looks)
            await asyncio.sleep(5)
            assert len(looks) - before <= 1
            assert "Failed" not in conditions(cluster)
            cluster.remove(PODS, name)
            await cluster.until(lambda: conditions(cluster).get("Failed") == "DeadlineExceeded")

    idle.run(scenario())


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
    async def scenario() -> None:
        async with world(CONTROLLER) as cluster:
            wanted = {"completionMode": "Indexed", "completions": MOST, "parallelism": 3, "backoffLimit": MOST, **spec}
            cluster.put(JOBS, {**job(**wanted), "status": {"completedIndexes": f"2-{MOST - 4}"}})
            await cluster.until(lambda: len(active(cluster)) == 3)
            indexes = {cluster.get(PODS, name)["metadata"]["annotations"][INDEX] for name in active(cluster)}
            assert indexes == {"0", "1", str(MOST - 3)}
            await run_all(cluster, 1)
            await cluster.until(lambda: len(active(cluster)) == 3)

    idle.run(scenario())


def test_a_job_with_many_pods_creates_them_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allotment.controllers.jobs._BURST", 5)

    async def scenario() -> None:
        async with world(CONTROLLER) as cluster:
            cluster.put(JOBS, job(parallelism=MOST, completions=MOST))
            while len(cluster.all(PODS)) <= 10:
                await asyncio.sleep(0)  # there is always more to do, so time does not advance

    idle.run(scenario())


NUMBERS = st.sets(st.integers(0, 40))


@given(NUMBERS, NUMBERS, st.integers(0, 45))
def test_indexes_are_sets_of_numbers(left: set[int], right: set[int], end: int) -> None:
    first, second = indexes_of(left), indexes_of(right)
    assert parse_indexes(format_indexes(first)) == first
    assert len(first) == len(left)
    assert [index in first for index in range(45)] == [index in left for index in range(45)]
    assert first | second == indexes_of(left | right)
    assert first & second == indexes_of(left & right)
    assert first.below(end) == indexes_of(index for index in left if index < end)
    assert list(first.absent(end)) == [index for index in range(end) if index not in left]
