"""Cron schedules match the times that cron does, and each time starts one Job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cluster.clock import stamp
from allotment.cluster.resources import CRON_JOBS, JOBS
from allotment.controllers.cron_jobs import cron_jobs
from allotment.controllers.cron_schedules import ScheduleError, parse
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.controllers.world import World, world

START = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * *", "2026-03-01T12:31"),
        ("@hourly", "2026-03-01T13:00"),
        ("*/7 * * * *", "2026-03-01T12:35"),
        ("0 0 29 2 *", "2028-02-29T00:00"),
        ("5 4 * * sun", "2026-03-08T04:05"),
        ("0 12 13 * 5", "2026-03-06T12:00"),
        ("0 12 * * 7", "2026-03-08T12:00"),
        ("1-3,50 12 * * *", "2026-03-01T12:50"),
        ("@every 1h30m", "2026-03-01T14:00"),
    ],
)
def test_a_schedule_has_a_next_time(text: str, expected: str) -> None:
    found = parse(text).after(START)
    assert found is not None
    assert f"{found:%Y-%m-%dT%H:%M}" == expected


def test_an_impossible_date_has_no_next_time() -> None:
    assert parse("0 0 31 2 *").after(START) is None


@pytest.mark.parametrize(
    "text", ["", "* * * *", "60 * * * *", "* * * * mon-sun-tue", "*/0 * * * *", "5-1 * * * *", "@often", "@every x"]
)
def test_an_invalid_schedule_is_rejected(text: str) -> None:
    with pytest.raises(ScheduleError):
        parse(text)


def test_an_hour_skipped_by_daylight_saving_time_is_omitted() -> None:
    zone = ZoneInfo("Europe/Berlin")  # 2026-03-29: from 2:00 straight to 3:00
    found = parse("30 2 * * *").after(datetime(2026, 3, 28, 12, tzinfo=UTC), zone)
    assert found == datetime(2026, 3, 30, 0, 30, tzinfo=UTC)


@given(st.integers(0, 59), st.integers(0, 23), st.integers(0, 5_000_000))
def test_the_next_time_matches_the_fields_and_is_within_a_day(minute: int, hour: int, passed: int) -> None:
    moment = START + timedelta(minutes=passed, seconds=passed % 60)
    found = parse(f"{minute} {hour} * * *").after(moment)
    assert found is not None
    assert (found.minute, found.hour) == (minute, hour)
    assert timedelta(0) < found - moment <= timedelta(days=1)


def cron_job(minutes_ago: float = 3, **spec: Any) -> Tree:
    template: Tree = {"spec": {"template": {"spec": {"containers": []}}}}
    created = stamp(IdleClock().moment() - timedelta(minutes=minutes_ago))
    return {
        "metadata": {"name": "c", "creationTimestamp": created},
        "spec": {"schedule": "* * * * *", "jobTemplate": template, **spec},
        "status": {},
    }


def ended(cluster: World, name: str, type: str = "Complete") -> None:
    conditions = [{"type": type, "status": "True"}]
    cluster.change(JOBS, name, status={"conditions": conditions, "completionTime": stamp(IdleClock().moment())})


def test_only_the_last_missed_run_is_started() -> None:
    async def scenario() -> None:
        async with world(cron_jobs) as cluster:
            cluster.put(CRON_JOBS, cron_job())
            await cluster.until(lambda: cluster.all(JOBS))
            await cluster.settled()
            [job] = cluster.all(JOBS)
            due = job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
            minutes = int(datetime.fromisoformat(due).timestamp()) // 60
            assert job["metadata"]["name"] == f"c-{minutes}"
            status = cluster.get(CRON_JOBS, "c")["status"]
            assert status["lastScheduleTime"] == due
            assert [reference["name"] for reference in status["active"]] == [job["metadata"]["name"]]
            ended(cluster, job["metadata"]["name"])
            await cluster.until(lambda: "active" not in cluster.get(CRON_JOBS, "c")["status"])
            assert "lastSuccessfulTime" in cluster.get(CRON_JOBS, "c")["status"]

    idle.run(scenario())


def test_suspended_and_new_cron_jobs_start_no_job() -> None:
    async def scenario() -> None:
        async with world(cron_jobs) as cluster:
            cluster.put(CRON_JOBS, cron_job(suspend=True))
            other = cron_job(minutes_ago=0, schedule="0 0 1 1 *")
            cluster.put(CRON_JOBS, {**other, "metadata": {**other["metadata"], "name": "new"}})
            await cluster.settled()
            assert cluster.all(JOBS) == []

    idle.run(scenario())


def test_forbid_skips_and_replace_restarts_while_a_job_runs() -> None:
    async def scenario() -> None:
        async with world(cron_jobs) as cluster:
            tree = cluster.put(CRON_JOBS, cron_job(suspend=True))
            owner = {
                "apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": tree["metadata"]["uid"],
                "controller": True,
            }  # fmt: skip
            cluster.put(JOBS, {"metadata": {"name": "old", "ownerReferences": [owner]}, "status": {}})
            cluster.change(CRON_JOBS, "c", spec={**tree["spec"], "suspend": False, "concurrencyPolicy": "Forbid"})
            await cluster.until(lambda: cluster.events("JobAlreadyActive"))
            assert cluster.names(JOBS) == ["old"]
            cluster.change(CRON_JOBS, "c", spec={**tree["spec"], "suspend": False, "concurrencyPolicy": "Replace"})
            await cluster.until(lambda: cluster.names(JOBS) and "old" not in cluster.names(JOBS))

    idle.run(scenario())


def test_only_the_newest_finished_jobs_are_kept() -> None:
    async def scenario() -> None:
        async with world(cron_jobs) as cluster:
            tree = cluster.put(
                CRON_JOBS, cron_job(suspend=True, successfulJobsHistoryLimit=2, failedJobsHistoryLimit=0)
            )
            owner = {
                "apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": tree["metadata"]["uid"],
                "controller": True,
            }  # fmt: skip
            for number in range(4):
                cluster.put(JOBS, {"metadata": {"name": f"j{number}", "ownerReferences": [owner]}, "status": {}})
                ended(cluster, f"j{number}", "Failed" if number == 3 else "Complete")
            await cluster.until(lambda: cluster.names(JOBS) == ["j1", "j2"])

    idle.run(scenario())


def test_an_invalid_schedule_is_reported() -> None:
    async def scenario() -> None:
        async with world(cron_jobs) as cluster:
            cluster.put(CRON_JOBS, cron_job(schedule="often"))
            await cluster.until(lambda: cluster.events("UnparseableSchedule"))

    idle.run(scenario())
