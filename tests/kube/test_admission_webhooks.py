"""Webhooks of the unit tests on kube-apiserver: it calls them with the same reviews, and answers the same requests."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from allotment.model.features import Features
from bench import real_kube
from tests.admission_webhooks import CASES, USER_AGENT, Case, Step, answer, rule
from tests.polling import wait_until
from tests.unit.apiserver.admission.webhook_runs import Run, configure, run_on_lab
from tests.unit.apiserver.served import Served
from tests.webhook_server import WebhookServer, webhook_server

pytestmark = pytest.mark.every_release

#: A case whose webhooks deny all requests: once they are called, those of the other cases are, too.
_LAST: Final = "webhook-last"
_PROBE: Final = {"metadata": {"name": "probe"}}


def _answer(server: real_kube.ApiServer, case: Case, step: Step) -> Any:
    headers = {"User-Agent": USER_AGENT, **({"Content-Type": step.media} if step.media else {})}
    path = step.path.replace("{}", case.name)
    code, body, warnings = server.send_request_for_warnings(step.method, path, step.body, headers=headers)
    return case.recorded([code, body, sorted(warnings)])


def _run(server: real_kube.ApiServer, case: Case, webhooks: WebhookServer) -> Run:
    run = Run()
    first = len(webhooks.received)
    run.answers = [_answer(server, case, step) for step in case.steps]
    run.reviews = [case.recorded([each.target, each.body]) for each in webhooks.received[first:]]
    return run


def _configure(server: real_kube.ApiServer, webhooks: WebhookServer) -> None:
    hooks = [
        hook._replace(handler=answer(allowed=False), fields={"rules": [rule(resource)]})
        for hook, resource in zip(_of_both_kinds(), ("configmaps", "secrets"), strict=True)
    ]
    last = Case(_LAST, hooks, ())
    for case in (*CASES, last):
        assert _answer(server, case, Step("POST", "/api/v1/namespaces", {"metadata": {"name": case.name}}))[0] == 201
    for case in (*CASES, last):
        for path, tree in case.configurations(webhooks):
            code, response = server.send_request("POST", path, tree)
            assert code == 201, response
    for resource in ("configmaps", "secrets"):
        probe = f"/api/v1/namespaces/{_LAST}/{resource}?dryRun=All"
        wait_until(partial(_is_denied, server, probe))


def _is_denied(server: real_kube.ApiServer, path: str) -> bool:
    return server.send_request("POST", path, _PROBE)[0] == 400


def _of_both_kinds() -> list[Any]:
    hooks = {hook.kind: hook for case in CASES for hook in case.hooks}
    return [hooks["mutating"], hooks["validating"]]


async def _on_lab(release: str, webhooks: WebhookServer) -> list[Run]:
    served = Served(features=Features(release), runtime_config=())
    await configure(served, webhooks)
    runs = [await run_on_lab(served, case, webhooks) for case in CASES]
    await served.api.outbound.close()
    await served.store.close()
    return runs


def test_webhooks_get_the_same_reviews(admission_server: real_kube.ApiServer, release: str, tmp_path: Path) -> None:
    server = admission_server
    with webhook_server(tmp_path) as webhooks:
        of_lab = asyncio.run(_on_lab(release, webhooks))
        _configure(server, webhooks)
        for case, expected in zip(CASES, of_lab, strict=True):
            run = _run(server, case, webhooks)
            assert (case.name, expected.answers) == (case.name, run.answers)
            assert (case.name, expected.reviews) == (case.name, run.reviews)
