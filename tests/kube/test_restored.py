"""etcd restored from a backup under a running component: revisions go back and are reused for other changes.

A watch from a future revision is not rejected: it gets no events until that revision is reached, and then only later
ones. Kubernetes documents that its own components must be restarted after a restore; none runs here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.real_kube import ApiServer, plane
from tests.components.process import running
from tests.kube.objects import CLAIMS, NAMESPACE, PODS, account, create, items, pod, template
from tests.polling import wait_until

#: More revisions than the test writes again before it would time out.
REVISIONS = 40


@pytest.fixture(scope="module")
def kube(paths: dict[str, str]) -> Iterator[ApiServer]:
    """An API server and no other component."""
    with plane(paths, "--disable-admission-plugins=ServiceAccount", controllers="", scheduler=False) as running:
        account(running, "claims")
        template(running)
        yield running


def owners(kube: ApiServer) -> list[str]:
    """The pods that have a claim of their own."""
    return sorted(claim["metadata"]["ownerReferences"][0]["name"] for claim in items(kube, CLAIMS))


def test_changes_after_a_restored_backup_are_seen(kube: ApiServer) -> None:
    kubeconfig = kube.kubeconfig_of("claims", kube.token_of("allotment-claims", NAMESPACE))
    create(kube, pod("kept"))
    with running("claims", f"--kubeconfig={kubeconfig}") as claims:
        wait_until(lambda: owners(kube) == ["kept"], state=lambda: claims.log)
        restore = kube.backup()
        for number in range(REVISIONS):
            create(kube, pod(f"lost-{number}"))
        wait_until(lambda: len(owners(kube)) == 1 + REVISIONS, state=lambda: claims.log)
        restore()
        assert [item["metadata"]["name"] for item in items(kube, PODS)] == ["kept"]
        create(kube, pod("next"))
        wait_until(lambda: owners(kube) == ["kept", "next"], state=lambda: claims.log)
        claims.wait_for_log("the cluster was restored from a backup; listing again")
        assert claims.stop() == 0
