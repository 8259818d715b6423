"""Which tests run where."""

from __future__ import annotations

import re

from tests.e2e.exclusions import Exclusions
from tests.e2e.labs import features
from tests.e2e.suite import E2ETest, Outcome

POOLS = E2ETest(
    "[sig-node] [DRA] control plane [FeatureGate:DRAResourcePoolStatus] [Feature:OffByDefault] should filter by pool"
)
PLAIN = E2ETest("[sig-node] [DRA] control plane [FeatureGate:DRAPrioritizedList] supports requests with alternatives")


def test_a_lab_has_the_features_that_tests_need_and_the_release_has_off() -> None:
    assert features("1.37", [PLAIN]) == ()
    assert features("1.37", [POOLS, PLAIN]) == (
        "--feature-gates", "DRAResourcePoolStatus=true", "--runtime-config", "api/all=true",
    )  # fmt: skip
    assert features("1.35", [POOLS]) == ()


def test_fewer_tests_are_excluded_with_real_containers() -> None:
    with_containers, without = Exclusions.read(containers=True), Exclusions.read(containers=False)
    assert set(with_containers.entries) < set(without.entries)
    guestbook = E2ETest("[sig-cli] Kubectl client Guestbook application should create and stop a working application")
    webhook = E2ETest("[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should honor timeout")
    assert with_containers.reason(guestbook) == "a network between pods"
    assert (with_containers.reason(webhook), without.reason(webhook)) == ("", "a container that serves webhooks")


def test_the_fast_part_and_all_tests_are_selected_by_name() -> None:
    selection = Exclusions.read(containers=True)
    assert re.search(selection.focus, POOLS.name)
    assert re.search(selection.subset, "[sig-node] [DRA] control plane supports reusing resources")


def test_tests_that_a_slow_machine_does_not_reach_are_unfinished() -> None:
    assert [
        Outcome(PLAIN, failure, 0.0).is_unfinished
        for failure in ("", "expected 1, found 2", "A suite timeout occurred", "not run within the time limit")
    ] == [False, False, True, True]
