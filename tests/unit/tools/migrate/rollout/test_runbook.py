"""The runbook: the steps of the migration and of the roll-back, in order."""

from __future__ import annotations

import re

from allotment.tools.migrate.report import Migration
from allotment.tools.migrate.rollout.file_layout import file_paths
from allotment.tools.migrate.rollout.runbook import runbook
from allotment.tools.migrate.sections import roll_back
from allotment.tools.migrate.simulation.comparison import compare
from tests.unit.tools.migrate.manifests import migrated, target, workload
from tests.unit.tools.migrate.trials import in_cluster, on_fleet, t4s

GPU = {"nvidia.com/gpu": 1}
PRODUCT = {"nvidia.com/gpu.product": "Tesla-T4"}


def page(migration: Migration) -> str:
    names = {file: file for file in (*migration.sources, *migration.texts)}
    before = {file: text for file, text in migration.sources.items() if migration.texts.get(file, text) != text}
    names |= {"device-classes.yaml": "device-classes.yaml"} if migration.classes else {}
    return runbook(migration, compare(migration), file_paths(names, before))


def section(text: str, heading: str) -> str:
    return text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def test_a_deployment_is_applied_and_its_rollout_awaited() -> None:
    text = page(on_fleet(workload(limits=GPU, nodeSelector=PRODUCT), fleet="t4"))
    there = section(text, "4. Workloads")
    assert "kubectl apply -f app.yaml\nkubectl -n default rollout status deployment/web" in there
    back = section(text, "Roll-back")
    assert "kubectl apply -f rollback/app.yaml.before\n" in back
    assert "kubectl -n default delete resourceclaimtemplate web-gpu\n" in back
    assert back.index("rollback/app.yaml.before") < back.index("delete resourceclaimtemplate")


def test_a_job_is_deleted_first() -> None:
    there = section(page(migrated(workload("Job", limits=GPU, nodeSelector=PRODUCT))), "4. Workloads")
    assert "kubectl -n default delete job/web --ignore-not-found\nkubectl apply -f app.yaml\n" in there


def test_objects_with_a_generated_name_are_created() -> None:
    text = workload("Job", limits=GPU, nodeSelector=PRODUCT).replace("name: web", "generateName: train-", 1)
    there = section(page(migrated(text)), "4. Workloads")
    assert "kubectl create -f app.yaml\n" in there
    assert "kubectl -n default delete" not in there


def test_a_file_is_applied_once_for_all_its_workloads() -> None:
    texts = [
        workload(kind, name=kind.lower(), limits=GPU, nodeSelector=PRODUCT) for kind in ("Deployment", "StatefulSet")
    ]
    there = section(page(migrated(*texts)), "4. Workloads")
    assert there.count("kubectl apply -f app.yaml") == 1
    assert there.count("rollout status") == 2


def test_new_classes_come_first() -> None:
    migration = migrated(workload(limits={"nvidia.com/mig-1g.5gb": 1}), to=target(strategy="class"))
    there = section(page(migration), "4. Workloads")
    assert "kubectl apply -f device-classes.yaml" in there
    assert "Nothing needs to be applied for Deployment default/web" in there


def test_known_nodes_are_named() -> None:
    nodes = section(page(in_cluster(workload(limits=GPU), objects=[t4s("n1"), t4s("n2")])), "3. Nodes, one at a time")
    assert "Run these commands for each of these nodes: n1, n2." in nodes
    steps = ("kubectl cordon", "kubectl drain", "kubectl label node", "get resourceslices", "kubectl uncordon")
    positions = [nodes.index(step) for step in steps]
    assert positions == sorted(positions)


def test_unchanged_workloads_have_no_steps() -> None:
    text = page(migrated(workload(limits={"nvidia.com/gpu.shared": 1})))
    assert "## Roll-back" not in text
    assert "**Deployment default/web**: cannot be migrated." in text


def test_lines_are_short_and_blocks_are_closed() -> None:
    text = page(on_fleet(workload(limits=GPU, nodeSelector=PRODUCT), fleet="t4"))
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) % 2 == 0
    fenced = re.sub(r"^ *```sh\n.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert max(map(len, fenced.splitlines())) <= 100


def test_the_roll_back_is_in_the_data() -> None:
    migration = migrated(workload(limits=GPU, nodeSelector=PRODUCT))
    section = roll_back(migration, None)
    assert section is not None
    steps = section.data["steps"]
    assert isinstance(steps, list)
    assert steps[0]["workloads"] == ["Deployment default/web"]
    assert steps[-1]["commands"] == ["kubectl -n default delete resourceclaimtemplate web-gpu"]
    assert roll_back(migrated(workload(limits=GPU)), None) is None
