"""Questions that take long delay each other, but no other answer, and a limited number of them waits."""

from __future__ import annotations

import asyncio
from threading import Event

import anyio
import pytest
from starlette.datastructures import QueryParams

from allotment.api.cluster import Cluster
from allotment.model.meta import Value
from allotment.watched.cluster import WatchedCluster
from allotment.watched.view import ClusterView
from allotment.web.problems import ProblemError
from allotment.web.screen_answers import Answers, ScreenRequest

MANY = 40
PLAIN = ScreenRequest(QueryParams())
VIEW = WatchedCluster.of_snapshot(Cluster.fleet("t4-4x-pcie")).view()


def quick(view: ClusterView, request: ScreenRequest) -> Value:
    return Value()


@pytest.mark.parametrize(
    ("path", "slow"),
    [
        ("/ask", ScreenRequest(QueryParams(), body=b"{}")),
        ("/what-if", ScreenRequest(QueryParams("change=drain:a"))),
        ("/money", ScreenRequest(QueryParams("plan=true"))),
    ],
)
def test_slow_answers_do_not_delay_the_map(path: str, slow: ScreenRequest) -> None:
    end = Event()
    rejected: list[int] = []

    def endless(view: ClusterView, request: ScreenRequest) -> Value:
        end.wait()
        return Value()

    async def request(answers: Answers) -> None:
        try:
            await answers.of(VIEW, path, endless, slow)
        except ProblemError as error:
            rejected.append(error.problem.status)

    async def main() -> bytes:
        answers, shown = Answers(asyncio.Event()), b""
        async with anyio.create_task_group() as group:
            for _ in range(MANY):
                group.start_soon(request, answers)
            try:
                with anyio.fail_after(60):
                    shown = (await answers.of(VIEW, "/map", quick, PLAIN)).plain
            finally:
                end.set()
        return shown

    assert anyio.run(main) == b"{}"
    assert set(rejected) == {503}
    assert len(rejected) < MANY
