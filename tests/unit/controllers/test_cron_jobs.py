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
def test_a_schedule_means_its_next_moment(text: str, expected: str) -> None:
    found = parse(text).after(START)
    assert found is not None
    assert f"{found:%Y-%m-%dT%H:%M}" == expected


def test_a_day_that_never_comes_is_never() -> None:
    assert parse("0 0 31 2 *").after(START) is None


@pytest.mark.parametrize(
    "text", ["", "* * * *", "60 * * * *", "* * * * mon-sun-tue", "*/0 * * * *", "5-1 * * * *", "@often", "@every x"]
)
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(ScheduleError):
        parse(text)


def test_an_hour_that_a_change_of_clocks_skips_is_left_out() -> None:
    zone = ZoneInfo("Europe/Berlin")  # 2026-03-29: from 2:00 straight to 3:00
    found = parse("30 2 * * *").after(datetime(2026, 3, 28, 12, tzinfo=UTC), zone)
    assert found == datetime(2026, 3, 30, 0, 30, tzinfo=UTC)


@given(st.integers(0, 59), st.integers(0, 23), st.integers(0, 5_000_000))
def test_the_next_moment_fits_the_fields_and_is_within_a_day(minute: int, hour: int, passed: int) -> None:
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


def ended(here: World, name: str, type: str = "Complete") -> None:
    conditions = [{"type": type, "status": "True"}]
    here.change(JOBS, name, status={"conditions": conditions, "completionTime": stamp(IdleClock().moment())})


def test_of_the_times_that_were_missed_the_last_is_made_good() -> None:
    async def story() -> None:
        async with world(cron_jobs) as here:
            here.put(CRON_JOBS, cron_job())
            await here.until(lambda: here.all(JOBS))
            await here.settled()
            [job] = here.all(JOBS)
            due = job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
            minutes = int(datetime.fromisoformat(due).timestamp()) // 60
            assert job["metadata"]["name"] == f"c-{minutes}"
            status = here.get(CRON_JOBS, "c")["status"]
            assert status["lastScheduleTime"] == due
            assert [one["name"] for one in status["active"]] == [job["metadata"]["name"]]
            ended(here, job["metadata"]["name"])
            await here.until(lambda: "active" not in here.get(CRON_JOBS, "c")["status"])
            assert "lastSuccessfulTime" in here.get(CRON_JOBS, "c")["status"]

    idle.run(story())


def test_a_suspended_one_and_a_new_one_start_nothing() -> None:
    async def story() -> None:
        async with world(cron_jobs) as here:
            here.put(CRON_JOBS, cron_job(suspend=True))
            other = cron_job(minutes_ago=0, schedule="0 0 1 1 *")
            here.put(CRON_JOBS, {**other, "metadata": {**other["metadata"], "name": "new"}})
            await here.settled()
            assert here.all(JOBS) == []

    idle.run(story())


def test_forbid_skips_and_replace_restarts_while_a_job_runs() -> None:
    async def story() -> None:
        async with world(cron_jobs) as here:
            tree = here.put(CRON_JOBS, cron_job(suspend=True))
            owner = {
                "apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": tree["metadata"]["uid"],
                "controller": True,
            }  # fmt: skip
            here.put(JOBS, {"metadata": {"name": "old", "ownerReferences": [owner]}, "status": {}})
            here.change(CRON_JOBS, "c", spec={**tree["spec"], "suspend": False, "concurrencyPolicy": "Forbid"})
            await here.until(lambda: here.events("JobAlreadyActive"))
            assert here.names(JOBS) == ["old"]
            here.change(CRON_JOBS, "c", spec={**tree["spec"], "suspend": False, "concurrencyPolicy": "Replace"})
            await here.until(lambda: here.names(JOBS) and "old" not in here.names(JOBS))

    idle.run(story())


def test_only_the_newest_ends_are_kept() -> None:
    async def story() -> None:
        async with world(cron_jobs) as here:
            tree = here.put(CRON_JOBS, cron_job(suspend=True, successfulJobsHistoryLimit=2, failedJobsHistoryLimit=0))
            owner = {
                "apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": tree["metadata"]["uid"],
                "controller": True,
            }  # fmt: skip
            for number in range(4):
                here.put(JOBS, {"metadata": {"name": f"j{number}", "ownerReferences": [owner]}, "status": {}})
                ended(here, f"j{number}", "Failed" if number == 3 else "Complete")
            await here.until(lambda: here.names(JOBS) == ["j1", "j2"])

    idle.run(story())


def test_an_invalid_schedule_is_reported() -> None:
    async def story() -> None:
        async with world(cron_jobs) as here:
            here.put(CRON_JOBS, cron_job(schedule="often"))
            await here.until(lambda: here.events("UnparseableSchedule"))

    idle.run(story())
