"""Computations for what others send end after a while; a request is answered even if its computation does not end."""

from __future__ import annotations

import asyncio
from threading import Event

import pytest
from starlette.testclient import TestClient

from allotment.time_limits import StoppedError, TookTooLongError, check_time
from allotment.web.limited_answers import LimitedAnswers
from allotment.web.problems import ProblemError
from tests.web import clients


def endless() -> None:
    while True:
        check_time()


def test_a_computation_ends_and_the_next_one_gets_its_thread() -> None:
    async def scenario() -> int:
        answers = LimitedAnswers(1, asyncio.Event(), seconds=0.05)
        with pytest.raises(TookTooLongError, match=r"no answer within 0\.05 seconds"):
            await answers.of(endless)
        return await answers.of(lambda: 1)

    assert asyncio.run(scenario()) == 1


def test_requests_are_answered_while_a_computation_does_not_end() -> None:
    end = Event()

    async def scenario() -> None:
        answers = LimitedAnswers(1, asyncio.Event(), most=2, timeout=0.05)
        for _ in range(2):
            with pytest.raises((TookTooLongError, ProblemError)):
                await answers.of(end.wait)
        end.set()

    asyncio.run(scenario())


def test_computations_end_with_the_server() -> None:
    async def scenario() -> None:
        stopping = asyncio.Event()
        stopping.set()
        with pytest.raises(StoppedError):
            await LimitedAnswers(1, stopping).of(endless)

    asyncio.run(scenario())


@pytest.mark.parametrize("address", ["/ask", "/api/v1/check"])
def test_an_answer_that_takes_too_long_is_a_problem(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allotment.web.limited_answers.LONGEST_ANSWER", 0.0)
    text = "a: [" + "1," * 1000 + "1]"
    with clients.client_of() as client:
        response = client.post(address, json={"text": text} if address == "/ask" else {"manifests": text})
    problem = response.json()
    assert (response.status_code, problem["type"]) == (503, "urn:allotment:problem:took-too-long")
    assert problem["hint"].startswith("send fewer manifests")


def test_too_many_values_are_rejected_before_they_are_read() -> None:
    text = "a: [" + "1," * 600_000 + "1]"
    with clients.client_of() as client:
        assert "about 600,001 values: expected at most 500,000" in problem_of(client, text)


def problem_of(client: TestClient, text: str) -> str:
    (problem,) = client.post("/ask", json={"text": text}).json()["problems"]
    return str(problem["message"])
