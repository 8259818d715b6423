"""A leader that stood still for longer than its Lease: when it wakes, it ends before it has written anything."""

from __future__ import annotations

import base64
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from allotment.model.trees import Tree
from bench.real_kube import ApiServer, plane
from tests.components.process import LED, running
from tests.kube.world import CLAIMS, NAMESPACE, PODS, account, create, items, pod, template
from tests.waiting import wait_until

#: As many pods as keep a copy busy for a moment.
MANY = 40
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
    """Who wrote what, but for Leases."""
    folder = tmp_path_factory.mktemp("audit")
    (folder / "policy.yaml").write_text(json.dumps(_POLICY))
    return folder / "log"


@pytest.fixture(scope="module")
def kube(paths: dict[str, str], audit: Path) -> Iterator[ApiServer]:
    """A plane whose claims are ours."""
    flags = (f"--audit-policy-file={audit.parent / 'policy.yaml'}", f"--audit-log-path={audit}")
    with plane(paths, *flags, controllers="*,-resourceclaim-controller", scheduler=False) as running:
        account(running, "claims")
        template(running)
        yield running


def copy_of(kube: ApiServer, name: str) -> tuple[str, str]:
    """The words that start a copy, and what its token is called where the server tells who wrote."""
    token = kube.token_of("allotment-claims", NAMESPACE)
    claims = token.split(".")[1]
    told: Tree = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    return f"--kubeconfig={kube.kubeconfig_of(name, token)}", f"JTI={told['jti']}"


def written(audit: Path, token: str) -> list[str]:
    """What the owner of a token wrote, in short; a line that is being written is not there yet."""
    events = (json.loads(line) for line in audit.read_text().rpartition("\n")[0].splitlines())
    return [
        f"{event['verb']} {event['requestURI']} at {event['stageTimestamp']}"
        for event in events
        if token in str(event["user"].get("extra"))
    ]


def waiting(kube: ApiServer) -> list[str]:
    """Pods whose claim nobody has made."""
    return [one["metadata"]["name"] for one in items(kube, PODS) if not one["status"].get("resourceClaimStatuses")]


def test_a_leader_that_stood_still_writes_nothing_when_it_wakes(kube: ApiServer, audit: Path) -> None:
    (one, token), (other, _) = copy_of(kube, "first"), copy_of(kube, "second")
    words = ("claims", f"--lease-namespace={NAMESPACE}", *LED)
    with running(*words, one) as first:
        first.leads()
        create(kube, pod("before"))
        # The last that is to be written, which is told of a moment after it can be seen.
        wait_until(lambda: any("/pods/before/status" in line for line in written(audit, token)))
        first.process.send_signal(signal.SIGSTOP)
        before = written(audit, token)
        # All of this lies in its sockets when it wakes.
        for number in range(MANY):
            create(kube, pod(f"pod-{number}"))
        with running(*words, other) as second:
            second.leads()
            first.process.send_signal(signal.SIGCONT)
            assert first.ends() == 1
            assert "is no longer the leader" in first.said[-1]
            assert written(audit, token) == before
            wait_until(lambda: not waiting(kube))
            assert len(items(kube, CLAIMS)) == 1 + MANY
            assert second.stop() == 0
