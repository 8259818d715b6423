"""kube-apiserver refuses the same writes to a claim's status as the API of a lab, in the same words."""

from __future__ import annotations

from functools import partial

import pytest

from bench import real_kube
from tests.claim_status_permissions import NAMESPACE, SETUP, STATUS, STEPS, Step, assert_answer
from tests.polling import wait_until

pytestmark = pytest.mark.every_release


def test_a_service_account_changes_the_parts_of_the_status_that_it_may_change(paths: dict[str, str]) -> None:
    with real_kube.api_server(paths, durable=False, authorization="RBAC") as server:

        def is_decided(step: Step) -> bool:
            """Whether the authorizer knows the new roles."""
            code, _ = server.send_request("PATCH", f"{STATUS}?dryRun=All", step.patch, headers=step.headers)
            return code == (422 if step.message else 200)

        for path, body in (("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}), *SETUP):
            assert server.send_request("POST", path, body)[0] == 201
        for step in STEPS:
            for path, body in step.before:
                assert server.send_request("POST", path, body)[0] == 201
            wait_until(partial(is_decided, step))
            code, response = server.send_request("PATCH", STATUS, step.patch, headers=step.headers)
            assert_answer(step, code, response)
