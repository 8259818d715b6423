"""The table of permissions: what every row must be, whoever adds one."""

from __future__ import annotations

from collections import Counter

import pytest

from allotment.tools.permissions.access_reviews import access_requests
from allotment.tools.permissions.components import COMPONENTS, lease_of
from allotment.tools.permissions.rule import ComponentPermissions

LEADING = ("scheduler", "claims", "taints", "autoscaler", "annotator")
SERVING = tuple(name for name in COMPONENTS if name not in ("reader", "cluster-autoscaler"))


@pytest.fixture(params=COMPONENTS)
def part(request: pytest.FixtureRequest) -> ComponentPermissions:
    return COMPONENTS[request.param]


def test_everything_is_granted_once(part: ComponentPermissions) -> None:
    granted = Counter(ask._replace(why="") for ask in access_requests(part))
    assert [ask for ask, times in granted.items() if times > 1] == []


def test_nothing_is_granted_by_a_star(part: ComponentPermissions) -> None:
    for rule in (*part.cluster_wide, *part.in_namespace):
        assert "*" not in "".join((*rule.groups, *rule.resources, *rule.verbs, *rule.names, *rule.paths))


def test_every_rule_has_a_reason_that_is_a_clause(part: ComponentPermissions) -> None:
    for rule in (*part.cluster_wide, *part.in_namespace):
        assert rule.why
        assert rule.why[0].islower()
        assert not rule.why.endswith(".")


def test_nobody_sees_secrets_or_hands_on_permissions(part: ComponentPermissions) -> None:
    for ask in access_requests(part):
        assert ask.resource not in ("secrets", "serviceaccounts", "roles", "clusterroles")
        assert ask.verb not in ("impersonate", "bind", "escalate")


def test_the_tools_that_only_read_change_nothing() -> None:
    assert {ask.verb for ask in access_requests(COMPONENTS["reader"])} == {"get", "list", "watch"}


@pytest.mark.parametrize("name", LEADING)
def test_who_leads_has_its_own_lease_and_no_other(name: str) -> None:
    about = [ask for ask in access_requests(COMPONENTS[name], "gpu") if ask.resource == "leases"]
    assert {ask.namespace for ask in about} == {"gpu"}
    assert {(ask.verb, ask.name) for ask in about} == {
        ("create", ""), ("get", lease_of(name)), ("update", lease_of(name))
    }  # fmt: skip


@pytest.mark.parametrize("name", SERVING)
def test_who_serves_metrics_may_ask_who_wants_them(name: str) -> None:
    assert {"tokenreviews", "subjectaccessreviews"} <= {ask.resource for ask in access_requests(COMPONENTS[name])}


def test_whoever_allocates_may_do_so_where_that_needs_a_permission_of_its_own() -> None:
    """KEP-4817's granular authorization: a status that changes an allocation is not written without."""
    writers = {
        part.name
        for part in COMPONENTS.values()
        for ask in access_requests(part)
        if str(ask).endswith("resourceclaims.resource.k8s.io/binding")
    }
    assert writers == {"scheduler", "claims"}


def test_a_driver_tells_of_its_own_devices_on_its_own_node() -> None:
    asked = [ask for ask in access_requests(COMPONENTS["driver"]) if ask.subresource == "driver"]
    assert {ask.verb for ask in asked} == {"associated-node:patch"}
    assert {ask.name for ask in asked} == {"gpu.amd.com", "gpu.nvidia.com"}
