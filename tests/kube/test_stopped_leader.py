"""A leader that was stopped for longer than its Lease ends when it continues, without writing anything."""

from __future__ import annotations

import base64
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from allotment.model.trees import Tree
from bench.real_kube import ApiServer, plane
from tests.components.process import LEASE_FLAGS, running
from tests.kube.objects import CLAIMS, NAMESPACE, PODS, account, create, items, pod, template
from tests.polling import wait_until

#: Enough pods to keep a copy busy for a moment.
POD_COUNT = 40
_POLICY = {
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "Metadata", "verbs": ["create", "update", "patch", "delete"],
         "resources": [{"group": "resource.k8s.io"}, {"group": ""}]},
        {"level": "None"},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The audit log: all writes except those of Leases."""
    folder = tmp_path_factory.mktemp("audit")
    (folder / "policy.yaml").write_text(json.dumps(_POLICY))
    return folder / "log"


@pytest.fixture(scope="module")
def kube(paths: dict[str, str], audit: Path) -> Iterator[ApiServer]:
    """A control plane whose claim controller is Allotment's."""
    flags = (f"--audit-policy-file={audit.parent / 'policy.yaml'}", f"--audit-log-path={audit}")
    with plane(paths, *flags, controllers="*,-resourceclaim-controller", scheduler=False) as running:
        account(running, "claims")
        template(running)
        yield running


def copy_of(kube: ApiServer, name: str) -> tuple[str, str]:
    """The arguments that start a copy, and the audit log's name for its token."""
    token = kube.token_of("allotment-claims", NAMESPACE)
    claims = token.split(".")[1]
    payload: Tree = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    return f"--kubeconfig={kube.kubeconfig_of(name, token)}", f"JTI={payload['jti']}"


def writes_of(audit: Path, token: str) -> list[str]:
    """The writes of a token, in short; an incomplete last line is ignored."""
    events = (json.loads(line) for line in audit.read_text().rpartition("\n")[0].splitlines())
    return [
        f"{event['verb']} {event['requestURI']} at {event['stageTimestamp']}"
        for event in events
        if token in str(event["user"].get("extra"))
    ]


def pods_without_claim(kube: ApiServer) -> list[str]:
    """Pods without a claim."""
    return [item["metadata"]["name"] for item in items(kube, PODS) if not item["status"].get("resourceClaimStatuses")]


def test_a_leader_that_was_paused_writes_nothing_when_it_continues(kube: ApiServer, audit: Path) -> None:
    (first_arguments, token), (second_arguments, _) = copy_of(kube, "first"), copy_of(kube, "second")
    arguments = ("claims", f"--lease-namespace={NAMESPACE}", *LEASE_FLAGS)
    with running(*arguments, first_arguments) as first:
        first.wait_for_lease()
        create(kube, pod("before"))
        # The last object to be written; its audit entry follows with a short delay.
        wait_until(lambda: any("/pods/before/status" in line for line in writes_of(audit, token)))
        first.process.send_signal(signal.SIGSTOP)
        before = writes_of(audit, token)
        # All of this is in its sockets when it continues.
        for number in range(POD_COUNT):
            create(kube, pod(f"pod-{number}"))
        with running(*arguments, second_arguments) as second:
            second.wait_for_lease()
            first.process.send_signal(signal.SIGCONT)
            assert first.wait_exit() == 1
            assert "is no longer the leader" in first.lines[-1]
            assert writes_of(audit, token) == before
            wait_until(lambda: not pods_without_claim(kube))
            assert len(items(kube, CLAIMS)) == 1 + POD_COUNT
            assert second.stop() == 0
