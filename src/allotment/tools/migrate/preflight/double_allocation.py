"""Checks for nodes that run both device plugin and driver, which can allocate the same GPU twice.

Neither sees the allocations of the other. Both pods start on one GPU, and the first symptom is that memory runs out.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.core import Pod
from allotment.model.workloads import DaemonSet
from allotment.phrases import first_few
from allotment.tools.migrate.plugin_requests import Vendor
from allotment.tools.migrate.preflight.check import UNKNOWN, Check
from allotment.tools.migrate.preflight.commands import plugin_off, to_driver
from allotment.tools.migrate.preflight.facts import VENDORS, Facts
from allotment.tools.migrate.simulation.comparison import Comparison

TITLE = "double allocation"
_RESOURCES: dict[Vendor, str] = {"nvidia": "nvidia.com/", "amd": "amd.com/", "intel": "gpu.intel.com/"}


def check_double_allocation(facts: Facts) -> Iterator[Check]:
    """Check whether a node has both, and report which nodes move."""
    for name in facts.drivers:
        vendor = VENDORS[name]
        look = f"kubectl describe nodes | grep -E '^Name:|^  {_RESOURCES[vendor]}'"
        if not facts.cluster:
            text = (
                "A node must run either the device plugin or the driver, not both: otherwise two pods can get the "
                "same GPU. Label each node for one of the two."
            )
            yield Check(state=UNKNOWN, title=TITLE, text=text, look=look, commands=to_driver(vendor, "NODE"))
            continue
        plugged, published = facts.plugged_by(vendor), facts.published(name)
        both = tuple(node for node in plugged if node in published)
        operators = plugin_off(vendor, _daemon_set(facts, vendor))
        if both:
            text = (
                f"The device plugin and {name} already both publish the GPUs of {first_few(both, 4)}, so two pods "
                "can get the same GPU. Remove the plugin or the driver from these nodes."
            )
            commands = (*(line for node in both[:4] for line in to_driver(vendor, node)), *operators)
            yield Check(state="to do", title=TITLE, text=text, look=look, commands=commands, danger=True)
            continue
        todo = tuple(node for node in facts.nodes if node in plugged)
        if todo:
            text = (
                f"The device plugin runs on {first_few(todo, 4)}, where the driver will run. Stop it before the "
                "driver starts, node by node: if both run, two pods can get the same GPU."
            )
            commands = (*to_driver(vendor, "NODE"), *operators)
            yield Check(state="to do", title=TITLE, text=text, look=look, commands=commands)
        else:
            yield Check(
                state="ok", title=TITLE, text="No node has GPUs published by both the device plugin and the driver."
            )
    yield from _others(facts)
    yield from _kept(facts.trial)


def _daemon_set(facts: Facts, vendor: Vendor) -> str:
    """The DaemonSet of a device plugin without an operator, found by objects or pods; empty if not found."""
    for value in facts.migration.target.objects:
        if isinstance(value, DaemonSet):
            name = value.metadata.name
        elif isinstance(value, Pod) and value.metadata.owner_references:
            owner = value.metadata.owner_references[0]
            name = owner.name if owner.kind == "DaemonSet" else ""
        else:
            continue
        by_operator = value.metadata.namespace in ("gpu-operator", "kube-amd-gpu")
        if "device-plugin" in name and vendor in name and not by_operator:
            return f"{value.metadata.namespace}/{name}"
    return ""


def _others(facts: Facts) -> Iterator[Check]:
    """Report pods with GPUs that are not in the files and must leave a node before it moves."""
    running = facts.trial.others if facts.trial is not None else ()
    if running:
        text = (
            f"{first_few(running, 4)} {'uses' if len(running) == 1 else 'use'} GPUs from the device plugin but "
            f"{'is' if len(running) == 1 else 'are'} not in the files: drain each node before you move it, and also "
            "migrate the manifests of these pods."
        )
        yield Check(state="to do", title="pods outside the files", text=text, look="kubectl get pods -A -o wide")


def _kept(trial: Comparison | None) -> Iterator[Check]:
    kept = {node: users for node, users in trial.kept.items() if users} if trial is not None else {}
    if trial is not None and kept and trial.moved:
        users = tuple(dict.fromkeys(user for names in kept.values() for user in names))
        moving = first_few(trial.moved, 4)
        text = (
            f"{first_few(tuple(kept), 4)} must keep the device plugin for {first_few(users, 4)}; {moving} can move "
            "to the driver."
        )
        yield Check(state="ok", title="which nodes move", text=text)
