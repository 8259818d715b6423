import pytest

from allotment.apiserver.kinds.cron_jobs import schedule_problem


@pytest.mark.parametrize("text", ["*/5 * * * *", "0 0 1 jan sun", "0-30/10,45 8-18 * * 1-5", "@daily", "@every 1h30m"])
def test_valid_schedules(text: str) -> None:
    assert schedule_problem(text) == ""


@pytest.mark.parametrize(
    "text", ["* * *", "60 * * * *", "* * 0 * *", "*/0 * * * *", "a * * * *", "5-1 * * * *", "@never"]
)
def test_invalid_schedules(text: str) -> None:
    assert schedule_problem(text)
