"""Checks that the drivers and their classes are installed, on the nodes that need them."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.phrases import first_few
from allotment.tools.migrate.preflight.check import UNKNOWN, Check
from allotment.tools.migrate.preflight.commands import install
from allotment.tools.migrate.preflight.facts import Facts


def check_driver(facts: Facts) -> Iterator[Check]:
    """Check that each driver publishes slices and that the classes exist."""
    for name in facts.drivers:
        gates = facts.driver_gates if name == "gpu.nvidia.com" else ()
        commands = install(name, gates, facts.shares)
        title = f"driver {name}"
        nodes = facts.published(name)
        if not facts.cluster:
            text = "The input does not show whether the driver is installed."
            yield Check(
                state=UNKNOWN,
                title=title,
                text=text,
                look="kubectl get resourceslices",
                commands=commands,
                routine=True,
            )
        elif not nodes:
            text = "It publishes no ResourceSlices. Install it; it runs only on nodes that have the driver's label."
            yield Check(state="to do", title=title, text=text, commands=commands)
        elif left := tuple(node for node in facts.nodes if node not in nodes):
            text = f"It publishes slices for {first_few(nodes, 4)}, but none for {first_few(left, 4)}."
            yield Check(state="to do", title=title, text=text, commands=commands)
        else:
            yield Check(state="ok", title=title, text=f"It publishes slices for {first_few(nodes, 4)}.")
    yield from _classes(facts)


def _classes(facts: Facts) -> Iterator[Check]:
    """Report classes in use that neither exist nor are created by the migration."""
    target = facts.migration.target
    if not facts.cluster:
        return
    available = {device_class.metadata.name for device_class in target.classes} | {
        device_class.name for device_class in facts.migration.classes
    }
    named = dict.fromkeys(name for workload in facts.moving for name in workload.decision.needs.classes)
    missing = tuple(name for name in named if name not in available)
    if missing:
        text = (
            f"DeviceClass {first_few(missing, 4)} not found. The driver's chart installs it, or an administrator "
            "creates it."
        )
        yield Check(state="to do", title="DeviceClasses", text=text, look="kubectl get deviceclasses")
