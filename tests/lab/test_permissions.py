"""Each component's permissions are enough in a lab, too. The stories are those that are played on a real API server."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import target
from allotment.cluster.resources import SERVICE_ACCOUNTS
from allotment.lab.lab import Lab
from allotment.tools.permissions.components import COMPONENTS
from allotment.tools.permissions.roles import manifests, name_of
from tests.kube.permitted import annotating, claiming, exporting, scheduling, tainting
from tests.kube.permitted.ground import FEATURES, HARDWARE, Account

PLAYS: dict[str, Any] = {
    "scheduler": scheduling, "claims": claiming, "taints": tainting, "exporter": exporting, "annotator": annotating
}  # fmt: skip


class Here:
    """A lab in which nobody schedules, nobody controls and nothing starts."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._target = target([Path(lab.kubeconfig)])
        self._numbers = itertools.count(1)

    def mark(self) -> str:
        """A word that no object has in its name yet."""
        return f"n{next(self._numbers)}"

    def client(self) -> HttpClient:
        """The administrator's."""
        return HttpClient(self._target)

    async def account(self, name: str) -> Account:
        """An account with exactly a part's permissions."""
        account = name_of(COMPONENTS[name])
        self._lab.apply(manifests(COMPONENTS[name]))
        async with self.client() as admin:
            asked = {"spec": {"audiences": [], "expirationSeconds": 3600}}
            told = await admin.create(SERVICE_ACCOUNTS, asked, "kube-system", name=account, subresource="token")
        own = self._target._replace(certificate=b"", key=b"", token=told["status"]["token"])
        return Account(account, f"system:serviceaccount:kube-system:{account}", own)


@pytest.fixture(scope="module")
def here() -> Iterator[Here]:
    with Lab(
        fleet=HARDWARE, tls=True, gates=dict(FEATURES.gates), without=("scheduler", "controllers", "kubelets"), speed=10
    ) as lab:  # fmt: skip
        yield Here(lab)


@pytest.mark.parametrize("name", PLAYS)
def test_what_a_component_may_do_is_all_that_it_needs(here: Here, name: str, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        account = await here.account(name)
        async with asyncio.timeout(240):
            await PLAYS[name].play(here, account)

    asyncio.run(run())
    assert [one.getMessage() for one in caplog.records if "forbidden" in one.getMessage()] == []
