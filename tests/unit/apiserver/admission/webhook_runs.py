"""Runs the cases of ``tests.admission_webhooks`` on the lab."""

from __future__ import annotations

from typing import Any

from tests.admission_webhooks import CASES, USER_AGENT, Case, Step
from tests.unit.apiserver.served import Served
from tests.webhook_server import WebhookServer


class Run:
    """The recorded answers to the steps of a case, and the reviews that its webhooks received."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.reviews: list[Any] = []

    @property
    def summary(self) -> list[Any]:
        """Code, message and warnings of each answer; path, operation and name of each review."""
        answers = [[code, body.get("message", ""), warnings] for code, body, warnings in self.answers]
        reviews = [
            [target, review["request"]["operation"], review["request"].get("name", "")]
            for target, review in self.reviews
        ]
        return [answers, reviews]


async def run_on_lab(served: Served, case: Case, server: WebhookServer) -> Run:
    """Carry out a case; the requests of other cases are not recorded."""
    run = Run()
    first = len(server.received)
    for step in case.steps:
        run.answers.append(await answer_of_lab(served, case, step))
    run.reviews = [case.recorded([each.target, each.body]) for each in server.received[first:]]
    return run


async def answer_of_lab(served: Served, case: Case, step: Step) -> Any:
    """The recorded answer of the lab to a step."""
    media = step.media or "application/json"
    path = step.path.replace("{}", case.name)
    response = await served.request(step.method, path, step.body, media, user_agent=USER_AGENT)
    return case.recorded([response.code, response.body, sorted(response.warnings)])


async def configure(served: Served, server: WebhookServer) -> None:
    """Create the namespaces and webhooks of all cases."""
    for case in CASES:
        namespace = {"metadata": {"name": case.name}}
        assert (await served.post("/api/v1/namespaces", namespace, user_agent=USER_AGENT)).code == 201
    for case in CASES:
        for path, tree in case.configurations(server):
            response = await served.post(path, tree)
            assert response.code == 201, response
