"""Checks for MIG devices, created before the driver starts or by the driver for each claim."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.phrases import first_few
from allotment.tools.migrate.preflight.check import UNKNOWN, Check
from allotment.tools.migrate.preflight.facts import Facts
from allotment.tools.migrate.resource_names import mig_profile
from allotment.tools.migrate.simulation.device_kind import kind_of_device


def check_mig(facts: Facts) -> Iterator[Check]:
    """Check that devices of the requested profiles exist."""
    wanted = tuple(
        dict.fromkeys(request.profile for request in facts.requests if request.profile and request.vendor == "nvidia")
    )
    if not wanted:
        return
    target = facts.migration.target
    expected = set(target.expected)
    cut = {profile for resources in facts.plugged.values() for name in resources if (profile := mig_profile(name))}
    published = {
        kind_of_device(device, slice_.spec.driver, False).profile
        for slice_ in target.slices
        if slice_.spec.node_name not in expected
        for device in slice_.spec.devices or ()
    }
    missing = tuple(profile for profile in wanted if profile not in published)
    if facts.cluster and missing and all(profile in cut for profile in missing):
        text = "The nodes already have these MIG devices; the driver publishes them when it starts."
        yield Check(state="ok", title=f"MIG {first_few(wanted, 4)}", text=text)
        return
    title = f"MIG {first_few(wanted, 4)}"
    look = "kubectl get resourceslices -o yaml | grep -A1 profile:"
    if facts.cluster and not missing:
        yield Check(state="ok", title=title, text="The driver publishes these devices.")
        return
    text = (
        f"Either partition the GPUs into {first_few(missing or wanted, 4)} before the driver starts on a node (on "
        "A100 it does not detect later changes until it is restarted), or let the driver create the devices itself "
        "(driver gate DynamicMIG; on Ampere, MIG mode must already be enabled)."
    )
    commands = ("kubectl label node NODE --overwrite nvidia.com/mig.config=CONFIG   # MIG manager",)
    yield Check(state="to do" if facts.cluster else UNKNOWN, title=title, text=text, look=look, commands=commands)
