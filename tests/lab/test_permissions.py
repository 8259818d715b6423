"""Each component's permissions suffice in a lab, too. The scenarios are those that run on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import target
from allotment.cluster.remote.version_negotiation import NegotiatingClient
from allotment.cluster.resources import SERVICE_ACCOUNTS
from allotment.lab.lab import Lab
from allotment.model import DEFAULT_RELEASE
from allotment.permissions.components import COMPONENTS
from allotment.permissions.roles import manifests, name_of
from tests.kube.permissions import annotator, claim_controller, exporter, scheduler, taint_controller, web
from tests.kube.permissions.environment import HARDWARE, Account
from tests.kube.releases import KUBE_RELEASES

RELEASE = KUBE_RELEASES[DEFAULT_RELEASE]
SCENARIOS: dict[str, Any] = {
    "scheduler": scheduler, "claims": claim_controller, "taints": taint_controller,
    "exporter": exporter, "annotator": annotator, "web": web,
}  # fmt: skip


class LabCluster:
    """A lab without scheduler, controllers and kubelets."""

    features = RELEASE.features

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._target = target([Path(lab.kubeconfig)])
        self._numbers = itertools.count(1)

    def unique_name(self) -> str:
        """A string that no object has in its name yet."""
        return f"n{next(self._numbers)}"

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[NegotiatingClient]:
        """A client of the administrator."""
        async with HttpClient(self._target) as admin:
            yield NegotiatingClient(admin)

    async def account(self, name: str) -> Account:
        """An account with exactly a component's permissions."""
        account = name_of(COMPONENTS[name])
        self._lab.apply(manifests(COMPONENTS[name]))
        async with self.client() as admin:
            token_request = {"spec": {"audiences": [], "expirationSeconds": 3600}}
            answer = await admin.create(
                SERVICE_ACCOUNTS, token_request, "kube-system", name=account, subresource="token"
            )
        own = self._target._replace(certificate=b"", key=b"", token=answer["status"]["token"])
        return Account(account, f"system:serviceaccount:kube-system:{account}", own)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LabCluster]:
    with Lab(
        fleet=HARDWARE, tls=True, kube=RELEASE.name, gates=dict(RELEASE.flags.gates),
        runtime_config=RELEASE.flags.runtime_config.split(","), without=("scheduler", "controllers", "kubelets"),
        speed=10,
    ) as lab:  # fmt: skip
        yield LabCluster(lab)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_permissions_of_a_component_suffice(
    cluster: LabCluster, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        account = await cluster.account(name)
        async with asyncio.timeout(240):
            await SCENARIOS[name].run(cluster, account)

    asyncio.run(run())
    assert [record.getMessage() for record in caplog.records if "forbidden" in record.getMessage()] == []
