"""Writes the runbook, README.md: pre-flight checks, steps for nodes and workloads, verification and roll-back."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from allotment.tools.migrate.plugin_requests import Vendor
from allotment.tools.migrate.preflight.check import UNKNOWN, Check, State
from allotment.tools.migrate.preflight.checks import checks_of
from allotment.tools.migrate.preflight.commands import plugin_on, to_driver, to_plugin
from allotment.tools.migrate.preflight.facts import VENDORS, Facts
from allotment.tools.migrate.report import CLASSES_FILE, Migration
from allotment.tools.migrate.rollout.file_layout import ROLLBACK, FilePaths
from allotment.tools.migrate.rollout.steps import (
    apply_commands,
    changed_workloads,
    cleanup_commands,
    code_block,
    is_recreated,
    namespace_flag,
)
from allotment.tools.migrate.simulation.comparison import Comparison
from allotment.tools.migrate.simulation.text import before_and_after

_WIDTH = 100
_RESOURCES: dict[Vendor, str] = {
    "nvidia": "nvidia\\.com/gpu",
    "amd": "amd\\.com/gpu",
    "intel": "gpu\\.intel\\.com/i915",
}
_STATES: tuple[tuple[State, str], ...] = (("to do", "[ ]"), (UNKNOWN, "[ ] check:"), ("ok", "[x]"))


def runbook(migration: Migration, trial: Comparison | None, paths: FilePaths) -> str:
    """The runbook as Markdown."""
    facts = Facts(migration, trial)
    lines = ["# Migration from the device plugin to claims", ""]
    lines += _paragraph(
        "Written by `allot migrate`. Follow the steps in order and run every command in this directory. Replace "
        "the names in capital letters (NODE, VERSION)."
    )
    lines += ["## Decision for each workload", "", *_decisions(migration)]
    lines += ["## 1. Pre-flight", "", *_checks(checks_of(migration, trial))]
    if facts.moving:
        lines += ["## 2. Server-side dry run", "", *_dry_run(migration, paths)]
        lines += ["## 3. Nodes, one at a time", "", *_nodes(facts)]
        lines += ["## 4. Workloads", "", *_workloads(migration, paths)]
        lines += ["## 5. Verification", "", *_verification(facts)]
        lines += ["## Roll-back", "", *_roll_back(facts, paths)]
    section = before_and_after(migration, trial)
    if section is not None and section.table:
        lines += ["## Before and after, simulated", "", *_trial(section.lines, section.table)]
    return "\n".join(lines).rstrip() + "\n"


def _paragraph(text: str) -> list[str]:
    return [*textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False), ""]


def _item(text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _decisions(migration: Migration) -> Iterator[str]:
    for workload in migration.workloads:
        claim = f" ({workload.claim_kind} {workload.claim_name})" if workload.claim_name else ""
        yield from _item(
            f"**{workload.subject}**: {_OUTCOMES[workload.decision.outcome]}{claim}. {workload.decision.reason}"
        )
        for note in workload.notes:
            yield from (f"  {line}" for line in _item(note))
    yield ""


_OUTCOMES = {
    "template": "every pod gets its own claim",
    "claim": "its pods share a claim",
    "class": "its manifest does not change; a class serves it",
    "leave": "stays with the device plugin",
    "cannot": "cannot be migrated",
}


def _checks(checks: Iterable[Check]) -> Iterator[str]:
    listed = tuple(checks)
    for state, box in _STATES:
        for check in listed:
            if check.state != state:
                continue
            yield from _item(f"{box} **{check.title}**. {check.text}")
            commands = (*((check.look,) if check.look and state != "ok" else ()), *check.commands)
            if commands and state != "ok":
                yield ""
                yield from (f"  {line}".rstrip() for line in code_block(commands)[:-1])
                yield ""
    yield ""


def _files(migration: Migration, paths: FilePaths) -> list[str]:
    """The files to apply, classes first."""
    with_classes = [name for name in paths.new.values() if name not in paths.old.values()]
    classes = [name for name in with_classes if name.endswith(CLASSES_FILE)] if migration.classes else []
    return [*classes, *(name for name in with_classes if name not in classes)]


def _dry_run(migration: Migration, paths: FilePaths) -> Iterator[str]:
    flag = namespace_flag(migration)
    yield from code_block(f"kubectl{flag} apply --dry-run=server -f {name}" for name in _files(migration, paths))
    if any(is_recreated(workload) and workload.decision.changes for workload in migration.workloads):
        yield from _paragraph(
            "The API server rejects changes to an existing Job or Pod, because its spec is immutable; step 4 recreates "
            "the object."
        )


def _nodes(facts: Facts) -> Iterator[str]:
    yield from _paragraph(
        "A node must run either the device plugin or the driver, not both: otherwise two pods can get the same "
        "GPU. Drain the node, change its label, wait for the driver's slices, and check that the plugin no longer "
        "publishes GPUs there before pods return. Begin with one node and one workload (step 4): pods that still "
        "request the plugin's resources need nodes that run the plugin."
    )
    trial = facts.trial
    kept = {node: users for node, users in trial.kept.items() if users} if trial is not None and facts.cluster else {}
    if kept:
        words = ", ".join(f"{node} ({', '.join(users)})" for node, users in kept.items())
        yield from _paragraph(f"These nodes keep the device plugin: {words}.")
    for driver in facts.drivers:
        vendor = VENDORS[driver]
        plugged = facts.plugged_by(vendor)
        nodes = [node for node in facts.nodes if node in plugged] or ["NODE"]
        if nodes != ["NODE"]:
            yield from _paragraph(f"Run these commands for each of these nodes: {', '.join(nodes)}.")
        resource = _RESOURCES[vendor]
        yield from code_block(
            (
                "kubectl cordon NODE",
                "kubectl drain NODE --ignore-daemonsets --delete-emptydir-data",
                *to_driver(vendor, "NODE"),
                "kubectl get resourceslices --field-selector spec.nodeName=NODE   # until the driver's slices exist",
                f"kubectl get node NODE -o jsonpath='{{.status.allocatable.{resource}}}'   # until it is 0 or empty",
                "kubectl uncordon NODE",
            )
        )


def _workloads(migration: Migration, paths: FilePaths) -> Iterator[str]:
    if migration.classes:
        yield from _paragraph("Create the new DeviceClasses first:")
        yield from code_block(f"kubectl apply -f {name}" for name in _files(migration, paths)[:1])
    served = [workload.subject for workload in migration.workloads if workload.decision.outcome == "class"]
    if served:
        yield from _paragraph(
            f"Nothing needs to be applied for {', '.join(served)}: pods get their GPUs through the class when they "
            "restart on a node that runs the driver."
        )
    for file, workloads in changed_workloads(migration).items():
        yield from _paragraph(f"{', '.join(workload.subject for workload in workloads)}:")
        yield from code_block(apply_commands(migration, paths.new[file], workloads))


def _verification(facts: Facts) -> Iterator[str]:
    namespaces = dict.fromkeys(workload.namespace for workload in facts.moving)
    commands = [f"kubectl -n {name} get pods,resourceclaims -o wide" for name in namespaces]
    commands.append("allot explain --context CONTEXT   # pending pods and the reasons")
    commands.append("allot free --context CONTEXT      # devices of each node and their claims")
    yield from _paragraph("Every claim must have the state `allocated,reserved`, and every pod must be running.")
    yield from code_block(commands)
    workload = next((workload for workload in facts.moving if workload.name), None)
    if workload is not None and "nvidia" in {VENDORS[name] for name in facts.drivers}:
        yield from _paragraph("A container must see its own GPUs and no others:")
        yield from code_block(
            [f"kubectl -n {workload.namespace} exec POD -c {workload.containers[0].name} -- nvidia-smi -L"]
        )


def _roll_back(facts: Facts, paths: FilePaths) -> Iterator[str]:
    migration = facts.migration
    yield from _paragraph(
        f"`{ROLLBACK}/` contains the original version of every changed file. First return the nodes that the old "
        "manifests need to the device plugin, then apply the original files, and finally delete the objects that the "
        "migration created. Running pods keep their GPUs until their nodes are drained."
    )
    yield from _paragraph("Return the nodes, one at a time:")
    for driver in facts.drivers:
        vendor = VENDORS[driver]
        yield from code_block(
            (
                "kubectl cordon NODE",
                "kubectl drain NODE --ignore-daemonsets --delete-emptydir-data",
                *to_plugin(vendor, "NODE"),
                "kubectl get resourceslices --field-selector spec.nodeName=NODE   # until its slices are gone",
                f"kubectl get node NODE -o jsonpath='{{.status.allocatable.{_RESOURCES[vendor]}}}'   # until it is > 0",
                "kubectl uncordon NODE",
            )
        )
        yield from _paragraph(
            "If the device plugin was disabled for the whole cluster, enable it before you return the first node:"
        )
        yield from code_block(plugin_on(vendor))
    for file, workloads in reversed(changed_workloads(migration).items()):
        yield from _paragraph(f"{', '.join(workload.subject for workload in workloads)}:")
        yield from code_block(apply_commands(migration, paths.old[file], workloads))
    gone = list(cleanup_commands(migration))
    if gone:
        yield from _paragraph("When the new pods are gone, delete the objects that they used:")
        yield from code_block(gone)
    yield from _paragraph("Without labeled nodes, the driver does not run; `helm uninstall` removes it.")


def _trial(lines: Iterable[str], table: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    headers, *rows = table
    first, *more = lines
    yield from _paragraph(first)
    yield f"| {' | '.join(headers)} |"
    yield "|" + " --- |" * len(headers)
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""
    for line in more:
        yield from _paragraph(line)
