"""Differences between Kubernetes releases in allocation, one flag each.

Defects of 1.36.2 that 1.37 fixed are not flags, because the engine never has them: counters keyed by the pool's name
alone, counters kept by rejected devices, constraints that compare only the last device of a request or lose state in
backtracking.
"""

from __future__ import annotations

from typing import NamedTuple

from allotment.model.features import Features


class Release(NamedTuple):
    """The behavior of a release."""

    counters_everywhere: bool
    """Until 1.36: slices with shared counters count on every node, not only on those that see devices of their pool."""
    all_skips_full_devices: bool
    """Until 1.36: ``All`` skips shareable devices whose capacity is exhausted; from 1.37, they make it fail."""
    limit_by_request: bool
    """From 1.37: the error names the request that exceeds the limit of 32 devices."""
    config_per_request: bool
    """Until 1.36: a claim's configuration appears once per request that it names; from 1.37 once, and without names if
    it applies to all requests."""
    errors_name_device: bool
    """From 1.37: a selector's error names the device and gives advice about a missing key."""
    refuses_disabled_fields: bool
    """From 1.37: derived attributes, compatibility groups and skipped node operations prevent an allocation while
    their gate is off. Earlier releases do not have these fields and ignore them."""
    capacity_errors: bool
    """From 1.37: a capacity request that int64 cannot represent, and a negative amount, end the attempt."""
    shares_charge_once: bool
    """From 1.37: a device consumes its counters once also if its shares name no capacity."""
    lists_always_readable: bool
    """From 1.37: selectors can read list attributes also while DRAListTypeAttributes is off."""


def release(features: Features) -> Release:
    """The behavior of the release that ``features`` describes."""
    before_1_37 = not features.since("1.37")
    return Release(
        counters_everywhere=before_1_37,
        all_skips_full_devices=before_1_37,
        limit_by_request=not before_1_37,
        config_per_request=before_1_37,
        errors_name_device=not before_1_37,
        refuses_disabled_fields=not before_1_37,
        capacity_errors=not before_1_37,
        shares_charge_once=not before_1_37,
        lists_always_readable=not before_1_37,
    )
