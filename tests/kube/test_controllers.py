"""Allotment's controllers in place of Kubernetes' own, killed while pods are created and deleted; ``python -m
tests.storm.controllers`` runs longer."""

from __future__ import annotations

import asyncio
import random

from tests.storm.controllers import Outcome, control_plane_with_controllers, storm


def outcome(paths: dict[str, str], *, together: bool) -> Outcome:
    seed = random.getrandbits(32)
    with control_plane_with_controllers(paths, together=together) as (plane, processes):
        found = asyncio.run(storm(plane, processes, seconds=12, pods=100, seed=seed, timeout=600))
    assert found.final_errors == [], f"seed {seed}: {found.text()}"
    assert found.log.count("Traceback") == 0
    assert found.evicted > 0
    return found


def test_no_claim_is_lost_or_left_over_when_copies_are_killed(paths: dict[str, str]) -> None:
    outcome(paths, together=False)


def test_two_active_copies_cause_no_lasting_errors(paths: dict[str, str]) -> None:
    """As when --leader-elect is missing."""
    outcome(paths, together=True)
