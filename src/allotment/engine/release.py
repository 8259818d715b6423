"""What Kubernetes releases do differently in allocation, one flag for each difference.

Defects of 1.36.2 that 1.37 repaired are not flags: the engine never has them (counters booked under the pool's name
alone or kept by refused devices; constraints that look at the last device of a request, or forget in backtracking).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from allotment.model.features import Features

_BEFORE_1_37: Final = frozenset({"1.34", "1.35", "1.36"})


class Release(NamedTuple):
    """How a release behaves."""

    counters_everywhere: bool
    """Until 1.36: slices with shared counters count on every node, not only on those that see devices of their pool."""
    all_skips_full_devices: bool
    """Until 1.36: ``All`` leaves out shareable devices whose capacity is used up; from 1.37 on, they make it fail."""
    limit_by_request: bool
    """From 1.37: the request that exceeds the limit of 32 devices is named."""
    config_per_request: bool
    """Until 1.36: a claim's configuration comes once per request that it names; from 1.37 on once, and without names
    if it concerns all requests."""
    errors_name_device: bool
    """From 1.37: a selector's error names the device, and says what to do about a missing key."""


def release(features: Features) -> Release:
    """The behaviour of the release in question."""
    before_1_37 = features.kube in _BEFORE_1_37
    return Release(
        counters_everywhere=before_1_37,
        all_skips_full_devices=before_1_37,
        limit_by_request=not before_1_37,
        config_per_request=before_1_37,
        errors_name_device=not before_1_37,
    )
