"""Each part's permissions suffice for all that it does, and without any one of them something fails.

Every part plays its story with the token of an account that has exactly its roles; what was asked, and refused, is told
by the API server's audit log. Then an account that may nothing plays it, and is given one verb on one resource (of one
name) at a time, each only when the server has refused it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from allotment.tools.permissions.access_reviews import AccessRequest, access_requests
from allotment.tools.permissions.components import COMPONENTS
from allotment.tools.permissions.rule import ComponentPermissions
from tests.kube.permitted import (
    annotating,
    claiming,
    driving,
    enlarging,
    exporting,
    reading,
    scaling,
    scheduling,
    tainting,
)
from tests.kube.permitted.ground import Account, Ground, ground
from tests.kube.permitted.needing import never_refused
from tests.waiting import wait_until

PLAYS: Final[dict[str, Any]] = {
    "reader": reading, "scheduler": scheduling, "claims": claiming, "taints": tainting, "autoscaler": scaling,
    "cluster-autoscaler": enlarging, "driver": driving, "exporter": exporting, "annotator": annotating,
}  # fmt: skip
#: Longer than any story takes, on a machine that does other things.
_SECONDS: Final = 600
#: Permissions that the server looks up while it handles another request, which is what the audit log shows.
_LOOKED_UP: Final = {("update", "resourceclaims/binding"), ("associated-node:patch", "resourceclaims/driver")}


@pytest.fixture(scope="module")
def here(paths: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with ground(paths, Path(tmp_path_factory.mktemp("audit"))) as found:
        asyncio.run(scaling.prepare(found))
        yield found


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Programs complain of what they lacks a few hundred times."""
    caplog.set_level(logging.CRITICAL, "allotment")


def test_every_part_has_a_story() -> None:
    assert list(PLAYS) == list(COMPONENTS)


@pytest.mark.parametrize("name", COMPONENTS)
def test_what_a_part_has_is_enough_and_is_used(here: Ground, name: str) -> None:
    async def run() -> Account:
        account = await _account(here, name, COMPONENTS[name])
        async with asyncio.timeout(_SECONDS):
            await PLAYS[name].play(here, account)
        return account

    account = asyncio.run(run())
    assert here.refused(account) == []

    def unused() -> list[str]:
        asked = [one for one in here.asked_by(account) if one.code != 0]
        wanted = [ask for ask in access_requests(COMPONENTS[name]) if not _is_looked_up(ask)]
        return [f"{ask.verb} {ask}" for ask in wanted if not any(one.uses(ask) for one in asked)]

    wait_until(lambda: not unused(), lambda: f"not used: {unused()}")  # the log is written a moment after it was seen


@pytest.mark.parametrize("name", COMPONENTS)
def test_without_any_one_of_them_something_fails(here: Ground, name: str) -> None:
    async def run() -> list[str]:
        account = await _account(here, name, COMPONENTS[name]._replace(cluster_wide=(), in_namespace=()))
        try:
            async with asyncio.timeout(_SECONDS):
                left = await never_refused(here, account, COMPONENTS[name], PLAYS[name].play)
        except TimeoutError:
            asked = "\n".join(map(str, here.asked_by(account)[-20:]))
            pytest.fail(f"the story stops, and nothing is refused; asked last:\n{asked}")
        return [f"{ask.verb} {ask} {ask.name}" for ask in left]

    assert asyncio.run(run()) == [], "nothing asked for these: they are more than the part needs"


async def _account(here: Ground, name: str, part: ComponentPermissions) -> Account:
    """Whose story begins now."""
    await here.clear()
    story = PLAYS[name]
    if hasattr(story, "account"):
        found: Account = await story.account(here, part)
        return found
    return await here.account(part)


def _is_looked_up(ask: AccessRequest) -> bool:
    # Server-side apply of what is not there yet looks up create, too.
    return (ask.verb, f"{ask.resource}/{ask.subresource}") in _LOOKED_UP or (ask.verb == "create" and bool(ask.name))
