"""``explain``, ``check``, ``doctor`` and the pod's event name one cause and one first remedy for the same objects.

The objects of each scenario are divided: what an author writes is checked as files, and the rest is the cluster.
Remedies are compared by their effect: the changes that ``explain`` suggests and the edits that ``check`` offers must
lead to the same objects. A remedy outside the files (uncordon a node, wait for a pod) must be in the text of the
finding. `tests/lab` compares the event of the scheduler in a running lab.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

from allotment.engine.refusal import AllocationRefusal
from allotment.explanation import Answer, explain
from allotment.explanation.messages import diagnosis_lines
from allotment.explanation.next_step import with_next_steps
from allotment.explanation.subjects import objects_to_explain, other_pods
from allotment.fleet import cluster_of, parse_fleet
from allotment.model.decoding import decode_all
from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.model.meta import Object
from allotment.model.trees import Tree
from allotment.tools.check.bundle import Bundle, CheckSettings, TargetCluster
from allotment.tools.check.finding import Finding
from allotment.tools.check.fixer import fix
from allotment.tools.check.run import check
from allotment.tools.doctor.examination import run_checks
from allotment.tools.doctor.finding import ClusterFinding
from allotment.tools.doctor.reading import read_objects
from allotment.tools.doctor.snapshot import ClusterSnapshot
from allotment.vocabulary import drivers, vocabulary
from tests.corpus.test_corpus import HERE, Scenario, head
from tests.manifest_changes import apply_change
from tests.unit.tools.check.test_seeds import SEEDS

pytestmark = pytest.mark.usefixtures("short_searches")

NAMES: Final = sorted(
    str(path.relative_to(HERE).with_suffix(""))
    for path in HERE.glob("**/*.yaml")
    if "code" in head(str(path.relative_to(HERE).with_suffix("")))
)
#: A search until its limit is long in each tool, so one scenario of it has to do.
_ONCE: Final = "search-given-up"
REFUSED: Final = [
    name for name in NAMES if head(name)["code"] != "fits" and (name == _ONCE or head(name)["code"] != _ONCE)
]

#: The rules that report a cause at the object that is wrong; P501 reports all others with the sentence of ``explain``.
RULES: Final[dict[str, frozenset[str]]] = {
    "admin-access-not-allowed": frozenset({"M409"}),  # the label of the namespace is missing
    "attribute-read-as-capacity": frozenset({"C208"}),
    "capacity-read-as-attribute": frozenset({"C208"}),
    "claim-missing": frozenset({"M405"}),
    "class-matches-nothing": frozenset({"V315"}),  # MIG devices without MIG
    "class-missing": frozenset({"V306"}),
    "constraint-attribute-unpublished": frozenset({"M403", "V303"}),  # V303: it was published in earlier releases
    # The name of a class that does not exist, or a misspelled one.
    "extended-resource-missing": frozenset({"V306", "V314"}),
    "invalid-manifest": frozenset({"S109", "S114"}),
    "not-enough-capacity": frozenset({"V308"}),  # the label of the card promises more than it has
    "no-alternative-fits": frozenset({"V308"}),  # in one of the alternatives
    "selector-fails": frozenset({"C203", "C204", "C207", "C211"}),  # what makes an expression fail on a device
    "selector-invalid": frozenset({"C202", "C210"}),  # what makes an expression invalid
    "template-missing": frozenset({"M405"}),
    "too-many-devices": frozenset({"M412"}),
    "type-mismatch": frozenset({"C203", "V312"}),
    "unknown-attribute": frozenset({"C208", "V301", "V302", "V303", "V315"}),
    "unknown-driver": frozenset({"C205", "V305"}),
    "wrong-namespace": frozenset({"M406"}),
}
_OF_CAUSES: Final = frozenset({"P501"}).union(*RULES.values())
#: Scenarios in which ``check`` says less than ``explain``.
SILENT: Final = {
    "without-slices": "a cluster without slices and nodes is not simulated: its objects may not have been given"
}
#: Manifests in which a controller creates what a pod lacks, which ``check`` only notes.
CREATED: Final = {"nvidia/imex/channel-injection.yaml": "the ComputeDomain controller creates the template"}
#: The hardware on which the manifests of drivers are tried.
_FLEET: Final = "dgx-a100-40gb"
_FAMILIES: Final = ("amd", "castai", "classes", "example", "nvidia")
#: Kinds that belong to the cluster, or to its administrator.
_OF_CLUSTER: Final = frozenset(
    {
        "DeviceTaintRule", "Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "ResourceSlice",
        "StorageClass",
    }
)  # fmt: skip
_INSTALLED: Final = frozenset(
    term.name for driver in drivers() if (found := vocabulary(driver)) is not None for term in found.classes
)


def is_written(tree: Tree) -> bool:
    """Whether an author writes the object: not a node, an installed class, a running pod or an allocated claim."""
    kind, metadata = tree["kind"], tree["metadata"]
    return not (
        kind in _OF_CLUSTER
        or (kind == "DeviceClass" and metadata["name"] in _INSTALLED)
        or (kind == "Pod" and "nodeName" in tree["spec"])
        or (kind == "ResourceClaim" and "allocation" in tree.get("status", {}))
        or "ownerReferences" in metadata
    )


class ToolInput(NamedTuple):
    """Files and a cluster as the tools see them. ``answer`` is the first refusal of ``explain``."""

    features: Features
    files: Sequence[Tree]
    bundle: Bundle
    answer: Answer | None

    @property
    def refused(self) -> AllocationRefusal:
        assert self.answer is not None
        assert self.answer.reasons is not None
        return self.answer.reasons.headline


@cache
def compared(name: str) -> ToolInput:
    """A scenario, divided into files and a cluster."""
    scenario = Scenario(name)
    trees = [document.tree for document in scenario.documents]
    cluster = _objects([tree for tree in trees if not is_written(tree)])
    return compare([tree for tree in trees if is_written(tree)], cluster, scenario.features)


def compare(files: Sequence[Tree], cluster: tuple[Object, ...], features: Features) -> ToolInput:
    loaded = load_text(yaml.safe_dump_all(files, sort_keys=False).encode(), "app.yaml")
    values = objects_to_explain(cluster, _objects(files))
    answers = explain(values, features, None, other_pods(cluster, values)).answers
    bundle = Bundle(loaded.documents, CheckSettings(features), TargetCluster(cluster), loaded.problems)
    return ToolInput(features, files, bundle, next((a for a in answers if a.reasons is not None), None))


def _objects(trees: Sequence[Tree]) -> tuple[Object, ...]:
    documents = load_text(yaml.safe_dump_all(trees, sort_keys=False).encode(), "objects.yaml").documents
    return tuple(m.value for m in decode_all(documents).manifests if isinstance(m.value, Object))


def is_about(finding: Finding, refused: AllocationRefusal) -> bool:
    """Whether a finding names the cause that ``explain`` names."""
    if finding.code in RULES.get(refused.code, ()):
        return True
    return finding.code == "P501" and refused.summary.rstrip(".") in finding.message


# --- objects after a remedy -------------------------------------------------------------------------------------------


class Applied(NamedTuple):
    """The files after a remedy, and the texts of what is to be done outside the files."""

    files: list[Any]
    texts: tuple[str, ...]


def after_changes(world: ToolInput) -> Applied:
    """The files after the changes of ``explain``; a person decides about those that lose required devices."""
    trees, changes = copy.deepcopy(list(world.files)), world.refused.changes
    is_decision = any(change.remedy == "unselect-hardware" for change in changes)
    outside = tuple(change.text for change in changes if is_decision or not apply_change(trees, change))
    return Applied([plain(tree) for tree in trees], outside)


def after_fixes(world: ToolInput) -> Applied:
    """The files after ``check`` has fixed the findings about causes, read back from the text."""

    def find(bundle: Bundle) -> list[Finding]:
        found = [finding for finding in check(bundle) if finding.code in _OF_CAUSES]
        return [finding for finding in found if finding.level == "error" or is_about(finding, world.refused)]

    result = fix(world.bundle, unsafe=True, find=find)
    text = result.texts.get("app.yaml") or world.bundle.documents[0].origin.source
    reported = tuple(f"{finding.message}; {finding.help}" for finding in result.remaining)
    return Applied([plain(tree) for tree in yaml.safe_load_all(text)], reported)


def plain(value: Any) -> Any:
    """A value without what means nothing: empty lists, the kind of quotes and the line breaks of expressions."""
    if isinstance(value, dict):
        kept = {key: plain(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in ([], {})}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return re.sub(r"\s+", " ", value.replace("'", '"')).strip() if isinstance(value, str) else value


# --- tests ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in REFUSED if name not in SILENT])
def test_check_reports_the_cause(name: str) -> None:
    world = compared(name)
    found = check(world.bundle)
    assert any(is_about(finding, world.refused) for finding in found), [(f.code, f.level, f.message) for f in found]


@pytest.mark.parametrize("name", [name for name in REFUSED if name not in SILENT])
def test_check_offers_the_first_remedy(name: str) -> None:
    world = compared(name)
    wanted, fixed = after_changes(world), after_fixes(world)
    assert fixed.files == wanted.files, (wanted.texts, fixed.texts)
    for text in wanted.texts:
        assert any(text in reported for reported in fixed.texts), (text, fixed.texts)


@pytest.mark.parametrize("name", SEEDS)
def test_manifests_of_articles(name: str, shared: Callable[[str], Path]) -> None:
    seed = SEEDS[name]
    compare_manifests(name, [shared(f"manifests/{file}.yaml") for file in seed.files], seed.fleet or _FLEET)


@pytest.mark.parametrize("family", _FAMILIES)
def test_manifests_of_drivers(family: str, shared: Callable[[str], Path]) -> None:
    folder = shared(f"manifests/{family}")
    for path in sorted(folder.rglob("*.yaml")):
        compare_manifests(str(path.relative_to(folder.parent)), [path], _FLEET)


def compare_manifests(name: str, paths: Sequence[Path], fleet: str) -> None:
    """The tools agree on manifests and hardware.

    An error in the shape of an object hides the others, so that ``explain`` has no answer yet.
    """
    documents = load_text("\n---\n".join(path.read_text("utf-8") for path in paths), "app.yaml").documents
    files = [with_namespace(document.tree) for document in documents if document.kind]
    machines = cluster_of(parse_fleet([fleet]), "1.36")
    world = compare(files, (*machines.nodes, *machines.slices, *machines.classes), Features("1.36"))
    found = check(world.bundle)
    if world.answer is None or any(f.code.startswith("S1") and f.level == "error" for f in found):
        return
    assert name in CREATED or any(is_about(finding, world.refused) for finding in found), (name, world.refused, found)
    wanted, fixed = after_changes(world), after_fixes(world)
    changed = {change.object for change in world.refused.changes}
    for own, of_explain, of_check in zip(files, wanted.files, fixed.files, strict=True):
        # The first refusal is not about the other objects, and changes are in the shape of v1.
        if name_of(own) in changed and own["apiVersion"] != "resource.k8s.io/v1beta1":
            assert of_check == of_explain, (name, fixed.texts)


def with_namespace(tree: Tree) -> Tree:
    """An object with the namespace that it gets without one."""
    if tree["kind"] in (*_OF_CLUSTER, "DeviceClass"):
        return tree
    return {**tree, "metadata": {"namespace": "default", **tree["metadata"]}}


def name_of(tree: Tree) -> str:
    """``Kind namespace/name``."""
    return f"{tree['kind']} {'/'.join(filter(None, (tree['metadata'].get('namespace'), tree['metadata']['name'])))}"


@pytest.mark.parametrize("name", REFUSED)
def test_the_event_names_the_cause_and_the_first_remedy(name: str) -> None:
    world = compared(name)
    assert world.answer is not None
    assert world.answer.reasons is not None
    first, *more = diagnosis_lines(world.answer.name, world.answer.reasons)
    assert first.endswith(f"({world.refused.code})")
    reported = "\n".join(more)
    assert all(change.text in reported for change in world.refused.changes)


def doctors(name: str) -> list[ClusterFinding]:
    """The findings of ``doctor`` about the pods of the scenario."""
    scenario = Scenario(name)
    read = read_objects(document.tree for document in scenario.documents)
    found = run_checks(ClusterSnapshot(features=scenario.features, values=read.values))
    return [finding for finding in found if finding.code in ("D602", "D603")]


@pytest.mark.parametrize("name", [name for name in REFUSED if name != _ONCE])
def test_the_doctor_names_the_cause_and_the_first_remedy(name: str) -> None:
    """Other checks of the doctor report a cause at its object; then no other cause may be named for the pod."""
    world = compared(name)
    for finding in doctors(name):
        if world.answer is None or world.answer.name not in (*finding.objects, finding.evidence):
            continue
        assert world.refused.summary in finding.evidence
        first = world.refused.changes[0] if world.refused.changes else None
        assert first is None or first.text.lower() in finding.remedy.lower()


@pytest.mark.parametrize("name", [name for name in REFUSED if name != _ONCE])
def test_the_doctor_prints_the_commands_of_explain(name: str) -> None:
    scenario = Scenario(name)
    answers = with_next_steps(scenario.explain(), scenario.cluster).answers
    next_steps = {answer.name: answer.next for answer in answers if answer.kind == "Pod" and answer.reasons is not None}
    for finding in doctors(name):
        first = finding.objects[0]
        namespace, _, pod = first.partition("/")
        *commands, last = [line.removeprefix("$ ") for line in finding.remedy.splitlines() if line.startswith("$ ")]
        assert last == f"allot explain pod/{pod} -n {namespace}"
        assert commands in ([], [next_steps[first]])


def test_exceptions_are_about_refusals() -> None:
    assert set(SILENT) <= set(REFUSED)
