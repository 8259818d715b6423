"""Typical device-plugin workloads, and their migrated manifests.

``before/<name>.yaml`` states in its leading comment the hardware (``fleet:``), the options of the migration
(``options:``) and the labels of its nodes (``nodes:``). ``after/<name>.yaml`` is the migrated text, followed by new
classes; ``after/<name>.txt`` contains the decisions.

``ALLOTMENT_UPDATE_CORPUS=1`` regenerates these files; review the difference before you commit it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from allotment.cel.validation_context import validation_context
from allotment.explanation import explain
from allotment.fleet import cluster_of, parse_fleet
from allotment.model.core import Namespace
from allotment.model.decoding import decode_all
from allotment.model.features import Features
from allotment.model.loading import load_paths
from allotment.model.meta import Object, ObjectMeta
from allotment.model.resource import DeviceClass
from allotment.model.validation.creation_errors import creation_errors
from allotment.tools.check.bundle import Bundle, CheckSettings
from allotment.tools.check.run import check
from allotment.tools.migrate.report import Migration
from allotment.tools.migrate.run import migrate
from allotment.tools.migrate.target import MigrationStrategy, Target

HERE = Path(__file__).parent
WORKLOADS = sorted(path.stem for path in (HERE / "before").glob("*.yaml"))
UPDATE = bool(os.environ.get("ALLOTMENT_UPDATE_CORPUS"))
FEATURES = Features(kube="1.36")
#: Not on hardware that Allotment knows, or not migrated.
NOT_MIGRATED = {"intel", "too-many-shares"}


def header_value(text: str, word: str) -> str:
    """The value of a word in the leading comment."""
    found = re.search(rf"^# {word}: (.+)$", text, re.MULTILINE)
    return found[1] if found else ""


def migrated(name: str, features: Features = FEATURES) -> Migration:
    """A workload of the corpus, migrated to its hardware."""
    path = HERE / "before" / f"{name}.yaml"
    text = path.read_text()
    fleet = header_value(text, "fleet")
    cluster = cluster_of(parse_fleet([fleet]), features.kube) if fleet else None
    strategy: MigrationStrategy = "claims" if "--strategy claims" in header_value(text, "options") else "auto"
    target = Target(
        kube=features.kube,
        features=features,
        strategy=strategy,
        known=cluster is not None,
        nodes=cluster.nodes if cluster else (),
        slices=cluster.slices if cluster else (),
        classes=cluster.classes if cluster else (),
    )
    loaded = load_paths([path])
    assert not loaded.problems
    return migrate(loaded.documents, target)


def decisions(migration: Migration) -> str:
    """The decisions, one per line."""
    lines = []
    for workload in migration.workloads:
        claim = f" {workload.claim_kind} {workload.claim_name}" if workload.claim_name else ""
        lines += [f"{workload.subject}: {workload.decision.outcome}{claim}", f"  {workload.decision.reason}"]
        lines += [f"  on: {'; '.join(workload.decision.basis)}"]
        lines += [f"  hint: {workload.decision.hint}"] if workload.decision.hint else []
        lines += [f"  {label.term}: {label.expression or label.why}" for label in workload.labels]
        lines += [f"  note: {note}" for note in workload.notes]
    return "".join(f"{line}\n" for line in lines)


def text_after(migration: Migration) -> str:
    """All migrated texts, new classes last."""
    texts = [migration.texts.get(file, source) for file, source in migration.sources.items()]
    return "---\n".join([*texts, *(class_.text for class_ in migration.classes)])


def objects_after(migration: Migration) -> list[Object]:
    """The objects of the migrated files; fails if the API server would reject one."""
    decoded = decode_all(migration.after)
    assert not decoded.problems
    allowed = {name for workload in migration.workloads for name in workload.decision.needs.admin_namespaces}
    labels = {"resource.kubernetes.io/admin-access": "true"}
    namespaces = {name: Namespace(metadata=ObjectMeta(name=name, labels=labels)) for name in allowed}
    for manifest in decoded.manifests:
        assert creation_errors(manifest, validation_context(FEATURES), namespaces) == []
    return [manifest.value for manifest in decoded.manifests if isinstance(manifest.value, Object)]


@pytest.mark.parametrize("name", WORKLOADS)
def test_migrated_text_and_decisions(name: str) -> None:
    migration = migrated(name)
    for suffix, text in ((".yaml", text_after(migration)), (".txt", decisions(migration))):
        golden = HERE / "after" / f"{name}{suffix}"
        if UPDATE:
            golden.write_text(text)
        assert golden.read_text() == text


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_next_release_gets_the_same_manifests(name: str) -> None:
    """All that a migration uses is in 1.37 as it is in 1.36; `allot check` finds no error there."""
    later = migrated(name, Features(kube="1.37"))
    assert text_after(later) == text_after(migrated(name))
    bundle = Bundle(later.after, CheckSettings(Features(kube="1.37")))
    assert [finding for finding in check(bundle) if finding.level == "error" and finding.code.startswith("S")] == []


@pytest.mark.parametrize("name", WORKLOADS)
def test_an_api_server_accepts_a_migrated_workload(name: str) -> None:
    assert objects_after(migrated(name))


@pytest.mark.parametrize("name", sorted(set(WORKLOADS) - NOT_MIGRATED))
def test_a_migrated_workload_gets_its_devices(name: str) -> None:
    migration = migrated(name)
    labels = dict(
        pair.split("=") for pair in header_value(next(iter(migration.sources.values())), "nodes").split(",") if pair
    )
    nodes = [
        replace(node, metadata=replace(node.metadata, labels={**node.metadata.labels, **labels}))
        for node in migration.target.nodes
    ]
    cluster = [*nodes, *migration.target.slices, *migration.target.classes]
    explanation = explain([*cluster, *objects_after(migration)], FEATURES)
    assert explanation.answers
    assert [answer.name for answer in explanation.answers if not answer.fits] == []


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_migrated_workload_needs_no_further_migration(name: str) -> None:
    migration = migrated(name)
    again = migrate(migration.after, replace_known(migration))
    assert [workload.subject for workload in again.workloads if workload.decision.changes] == []
    assert not again.texts


def replace_known(migration: Migration) -> Target:
    """The same target, with the classes that the migration created."""
    created = [value for value in objects_after(migration) if isinstance(value, DeviceClass)]
    target = migration.target
    return Target(
        kube=target.kube, features=target.features, strategy=target.strategy, known=target.known, nodes=target.nodes,
        slices=target.slices, classes=(*target.classes, *created),
    )  # fmt: skip


@pytest.mark.parametrize("name", WORKLOADS)
def test_comments_and_other_objects_stay(name: str) -> None:
    migration = migrated(name)
    before, after = next(iter(migration.sources.values())), text_after(migration)
    comments = [line.strip() for line in before.splitlines() if line.strip().startswith("#")]
    assert [comment for comment in comments if comment not in after] == []
    changed = {workload.subject for workload in migration.workloads if workload.decision.changes}
    untouched = [
        d
        for d in migration.before
        if f"{d.kind} {d.tree['metadata'].get('namespace', 'default')}/{d.name}" not in changed
    ]
    later = [document.tree for document in migration.after]
    assert all(document.tree in later for document in untouched)
