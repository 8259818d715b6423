"""etcd restored from a backup under a component: revisions go back, and come again for other changes.

A watch from a revision that is still to come is not refused: it is told nothing until that is reached, and then only
the rest. Kubernetes' own programs are to be started again after this; none runs here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.real_kube import ApiServer, plane
from tests.components.process import running
from tests.kube.world import CLAIMS, NAMESPACE, PODS, account, create, items, pod, template
from tests.waiting import wait_until

#: More than there will be again before a test would have given up.
LOST = 40


@pytest.fixture(scope="module")
def kube(paths: dict[str, str]) -> Iterator[ApiServer]:
    """A server and nothing else."""
    with plane(paths, "--disable-admission-plugins=ServiceAccount", controllers="", scheduler=False) as running:
        account(running, "claims")
        template(running)
        yield running


def owners(kube: ApiServer) -> list[str]:
    """The pods that have a claim of their own."""
    return sorted(claim["metadata"]["ownerReferences"][0]["name"] for claim in items(kube, CLAIMS))


def test_what_comes_after_a_backup_was_restored_is_seen(kube: ApiServer) -> None:
    kubeconfig = kube.kubeconfig_of("claims", kube.token_of("allotment-claims", NAMESPACE))
    create(kube, pod("kept"))
    with running("claims", f"--kubeconfig={kubeconfig}") as claims:
        wait_until(lambda: owners(kube) == ["kept"], told=lambda: claims.log)
        restore = kube.backup()
        for number in range(LOST):
            create(kube, pod(f"lost-{number}"))
        wait_until(lambda: len(owners(kube)) == 1 + LOST, told=lambda: claims.log)
        restore()
        assert [one["metadata"]["name"] for one in items(kube, PODS)] == ["kept"]
        create(kube, pod("next"))
        wait_until(lambda: owners(kube) == ["kept", "next"], told=lambda: claims.log)
        assert "it was restored from a backup; listing again" in claims.log
        assert claims.stop() == 0
