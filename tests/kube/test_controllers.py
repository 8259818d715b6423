"""Our controllers in place of Kubernetes' own, killed while pods come and go; ``python -m tests.storm.controllers``
does it at length."""

from __future__ import annotations

import asyncio
import random

from tests.storm.controllers import Outcome, controlled, storm


def outcome(paths: dict[str, str], *, together: bool) -> Outcome:
    seed = random.getrandbits(32)
    with controlled(paths, together=together) as (plane, ours):
        found = asyncio.run(storm(plane, ours, seconds=12, pods=100, seed=seed, patience=600))
    assert found.wrong == [], f"seed {seed}: {found.text()}"
    assert found.log.count("Traceback") == 0
    return found


def test_no_claim_is_lost_or_left_when_copies_are_killed(paths: dict[str, str]) -> None:
    outcome(paths, together=False)


def test_two_copies_that_both_work_do_no_lasting_harm(paths: dict[str, str]) -> None:
    """As when somebody forgets --leader-elect."""
    outcome(paths, together=True)
