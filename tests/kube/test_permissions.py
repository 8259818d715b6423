"""Each component's permissions suffice for all that it does, and each single one is required.

Every component runs its scenario with the token of an account that has exactly its roles; the API server's audit log
shows its requests and the refused ones. Then an account without permissions runs the scenario and is granted one verb
on one resource (of one name) at a time, each only after the server has refused it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from allotment.permissions.access_reviews import AccessRequest, access_requests
from allotment.permissions.components import COMPONENTS
from allotment.permissions.rule import ComponentPermissions
from allotment.scheduler.release import scheduler_release
from tests.kube.permissions import (
    annotator,
    autoscaler,
    claim_controller,
    cluster_autoscaler,
    driver,
    exporter,
    scheduler,
    taint_controller,
    tools,
    web,
)
from tests.kube.permissions.environment import Account, ScenarioCluster, running_cluster
from tests.kube.permissions.required import unneeded_permissions
from tests.polling import wait_until

SCENARIOS: Final[dict[str, Any]] = {
    "reader": tools, "scheduler": scheduler, "claims": claim_controller, "taints": taint_controller,
    "autoscaler": autoscaler, "cluster-autoscaler": cluster_autoscaler, "driver": driver, "exporter": exporter,
    "annotator": annotator, "web": web,
}  # fmt: skip
#: Longer than any scenario takes on a loaded machine.
_SECONDS: Final = 600
#: Permissions that the server checks while it handles another request, which is the one in the audit log.
_LOOKED_UP: Final = {("update", "resourceclaims/binding"), ("associated-node:patch", "resourceclaims/driver")}


@pytest.fixture(scope="module")
def cluster(paths: dict[str, str], release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScenarioCluster]:
    with running_cluster(paths, release, Path(tmp_path_factory.mktemp("audit"))) as found:
        asyncio.run(autoscaler.prepare(found))
        yield found


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Silence the programs, which log every refused request."""
    caplog.set_level(logging.CRITICAL, "allotment")


def test_every_component_has_a_scenario() -> None:
    assert list(SCENARIOS) == list(COMPONENTS)


@pytest.mark.every_release
@pytest.mark.parametrize("name", COMPONENTS)
def test_the_permissions_of_a_component_suffice_and_are_used(cluster: ScenarioCluster, name: str) -> None:
    async def run() -> Account:
        account = await _account(cluster, name, COMPONENTS[name])
        async with asyncio.timeout(_SECONDS):
            await SCENARIOS[name].run(cluster, account)
        return account

    account = asyncio.run(run())
    assert cluster.forbidden_requests(account) == []

    def unused() -> list[str]:
        requests = [item for item in cluster.requests_of(account) if item.code != 0]
        expected = [
            permission
            for permission in access_requests(COMPONENTS[name])
            if not _is_looked_up(permission) and _is_for_release(cluster, name, permission)
        ]
        return [
            f"{permission.verb} {permission}"
            for permission in expected
            if not any(request.requires(permission) for request in requests)
        ]

    wait_until(lambda: not unused(), lambda: f"not used: {unused()}")  # the audit log is written with a short delay


@pytest.mark.parametrize("name", COMPONENTS)
def test_each_permission_is_required(cluster: ScenarioCluster, name: str) -> None:
    async def run() -> list[str]:
        account = await _account(cluster, name, COMPONENTS[name]._replace(cluster_wide=(), in_namespace=()))
        try:
            async with asyncio.timeout(_SECONDS):
                remaining = await unneeded_permissions(cluster, account, COMPONENTS[name], SCENARIOS[name].run)
        except TimeoutError:
            requests = "\n".join(map(str, cluster.requests_of(account)[-20:]))
            pytest.fail(f"the scenario fails, but no request was refused; the last requests:\n{requests}")
        return [
            f"{permission.verb} {permission} {permission.name}"
            for permission in remaining
            if _is_for_release(cluster, name, permission)
        ]

    assert asyncio.run(run()) == [], "no request used these permissions: the component does not need them"


async def _account(cluster: ScenarioCluster, name: str, component: ComponentPermissions) -> Account:
    """The account for a scenario, which starts now."""
    await cluster.clear()
    module = SCENARIOS[name]
    if hasattr(module, "account"):
        found: Account = await module.account(cluster, component)
        return found
    return await cluster.account(component)


def _is_for_release(cluster: ScenarioCluster, component: str, permission: AccessRequest) -> bool:
    """Whether the component needs a permission in the cluster's release: before 1.37 it does not schedule groups."""
    of_groups = permission.resource == "compositepodgroups" or permission.subresource == "status"
    if component != "scheduler" or permission.group != "scheduling.k8s.io" or not of_groups:
        return True
    return scheduler_release(cluster.features).schedules_groups


def _is_looked_up(permission: AccessRequest) -> bool:
    # Server-side apply of a new object also checks the create permission.
    return (permission.verb, f"{permission.resource}/{permission.subresource}") in _LOOKED_UP or (
        permission.verb == "create" and bool(permission.name)
    )
