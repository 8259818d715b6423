"""The advice of the tools for the pending pod of a world: explain, check, doctor, the scheduler and the annotator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from allotment.cluster.client import Resource
from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, DEVICE_CLASSES, NAMESPACES, NODES, PODS, SLICES
from allotment.engine.diagnosis.reader import Reader
from allotment.engine.refusal import SuggestedChange
from allotment.explanation import Answer, Explanation, lines, messages
from allotment.model.decoding import decode_all
from allotment.model.loading import load_text
from allotment.model.meta import Object
from allotment.model.trees import Tree, to_value
from allotment.tools.check.bundle import Bundle, CheckSettings, TargetCluster
from allotment.tools.check.finding import Finding
from allotment.tools.check.fixer import fix
from allotment.tools.check.run import check
from allotment.tools.doctor.examination import run_checks
from allotment.tools.doctor.objects import TYPES
from allotment.tools.doctor.snapshot import snapshot_of
from tests.storm.advice.explanations import explained
from tests.storm.advice.worlds import FEATURES, NAMESPACE, POD, World, manifests, stored, values_of
from tests.unit.cluster import idle
from tests.unit.scheduler.world import SchedulingClient
from tests.unit.scheduler.world import world as scheduled_world

_RESOURCES: Final[dict[str, Resource]] = {
    "Node": NODES, "Namespace": NAMESPACES, "Pod": PODS, "ResourceSlice": SLICES, "DeviceClass": DEVICE_CLASSES,
    "ResourceClaim": CLAIMS, "ResourceClaimTemplate": CLAIM_TEMPLATES,
}  # fmt: skip
#: The first remedy in the lines of a condition or event.
_REMEDY: Final = re.compile(r"  to make it fit(?: on [^:]*)?: (.*)")
_FILE: Final = "pod.yaml"
#: The rules about names that devices may lack, and about amounts of memory that only some cards have.
_OF_OTHERS: Final = ("C207", "V308")


class ReportedText(NamedTuple):
    """The output of a tool: the whole text, and the first remedy as text if the tool marks it."""

    text: str
    remedy: str = ""


class CheckAnswer(NamedTuple):
    """The findings of ``check``. ``fixed``: the author's objects after its fixes; None without a fix."""

    findings: tuple[Finding, ...]
    fixed: tuple[Object, ...] | None

    @property
    def text(self) -> str:
        return " ".join(f"{f.code} {f.message} {f.help} {f.fix.text if f.fix else ''}" for f in self.findings)


class Advice(NamedTuple):
    """The answers of all tools. ``explained``: to the author before the objects are applied; the others are None if
    the API server would reject the objects. ``own_view`` and ``shown`` are for readers of the pod's namespace."""

    explained: Answer
    check: CheckAnswer
    live: Answer | None = None
    own_view: Answer | None = None
    doctor: str | None = None
    shown: ReportedText | None = None


def advice_for(world: World) -> Advice:
    """The advice of all tools for a world."""
    answer = explained(world.cluster, world.own)
    checked = check_answer(world)
    trees = stored(world)
    if trees is None:
        return Advice(answer, checked)
    own_view = explained(trees, readers=Reader.of)
    return Advice(answer, checked, explained(trees), own_view, doctor_text(trees), shown_by_scheduler(trees))


# --- texts ----------------------------------------------------------------------------------------------------------


def words_of(changes: Iterable[SuggestedChange]) -> str:
    """Changes as text, as the tools print them."""
    return ", and ".join(change.text for change in changes)


def lines_of(answer: Answer) -> list[str]:
    """The lines of an event or a condition for an answer."""
    if answer.reasons is None:
        return []
    return messages.diagnosis_lines(answer.name, answer.reasons)


def first_remedy(text: Sequence[str]) -> str:
    """The first remedy in the lines of an event or a condition."""
    return next((found[1] for line in text if (found := _REMEDY.match(line))), "")


def printed(answer: Answer) -> str:
    """The output of ``allot explain``."""
    return "\n".join(lines(Explanation(answers=(answer,))))


# --- check ----------------------------------------------------------------------------------------------------------


def check_answer(world: World) -> CheckAnswer:
    """The findings of ``check`` for the author's objects, in the cluster, and the objects after its fixes."""
    target = TargetCluster(tuple(values_of(world.cluster)))
    loaded = load_text(manifests(world.own), _FILE)
    given = Bundle(loaded.documents, CheckSettings(FEATURES), target, loaded.problems)
    findings = _about_the_cluster(given)
    if not any(finding.fix for finding in findings):
        return CheckAnswer(findings, None)
    text = fix(given, unsafe=True, find=_about_the_cluster).texts.get(_FILE)
    return CheckAnswer(findings, None if text is None else decoded(text))


def _about_the_cluster(bundle: Bundle) -> tuple[Finding, ...]:
    """The findings without notes, and without warnings about devices of other clusters."""
    return tuple(
        finding
        for finding in check(bundle)
        if finding.level == "error" or (finding.level == "warning" and finding.code not in _OF_OTHERS)
    )


def decoded(text: str) -> tuple[Object, ...]:
    """The objects of a file."""
    found = decode_all(load_text(text, _FILE).documents)
    return tuple(manifest.value for manifest in found.manifests if isinstance(manifest.value, Object))


# --- a running cluster ----------------------------------------------------------------------------------------------


def doctor_text(trees: Sequence[Tree]) -> str:
    """The findings of ``doctor`` about the pod."""
    values = [to_value(tree, type_) for tree in _attempted(trees) if (type_ := TYPES.get(_type(tree))) is not None]
    found = run_checks(snapshot_of(FEATURES, values, denied=()))
    name = f"{NAMESPACE}/{POD}"
    return "\n".join(f"{f.code} {f.evidence}\n{f.remedy}" for f in found if name in f.objects)


def _type(tree: Tree) -> tuple[str, str]:
    group, slash, _ = tree["apiVersion"].partition("/")
    return group if slash else "", tree["kind"]


def _attempted(trees: Sequence[Tree]) -> list[Tree]:
    """The objects with the condition that a scheduler has tried the pod."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0 nodes"}
    found = []
    for tree in trees:
        if tree["kind"] == "Pod" and tree["metadata"]["name"] == POD:
            tree = {**tree, "status": {**tree["status"], "conditions": [condition]}}
        found.append(tree)
    return found


def shown_by_scheduler(trees: Sequence[Tree]) -> ReportedText:
    """The condition and the event of the pod in a cluster with Allotment's scheduler."""
    client = SchedulingClient()
    for tree in trees:
        client.put(_RESOURCES[tree["kind"]], tree)

    def event() -> str:
        found = (t for (kind, _, _), t in client.objects.items() if kind.plural == "events")
        return "\n".join(str(t["note"]) for t in found if (t.get("regarding") or {}).get("name") == POD)

    def condition() -> str:
        pod = client.objects[PODS, NAMESPACE, POD]
        found = (c for c in pod.get("status", {}).get("conditions") or () if c["type"] == "PodScheduled")
        return next((str(c.get("message", "")) for c in found), "")

    async def run() -> ReportedText:
        async with scheduled_world(client=client, features=FEATURES, settle=0.0) as lab:
            await lab.until(event)
            text = condition() or event()
            return ReportedText(f"{text}\n{event()}", first_remedy(text.splitlines()))

    return idle.run(run())
