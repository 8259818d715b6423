"""The next step after a refusal: the one command that helps most.

It follows from the first remedy and from where its object is: kubectl changes objects of the cluster, ``allot check``
those of files. A command is returned only if it succeeds for the objects of the question; one that changes something
makes the pod fit, unless it also has to wait for devices. Objects that the API server does not allow to change are
replaced: see `replacement`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from allotment.engine.refusal import BUSY, SEARCH_GIVEN_UP, AllocationRefusal, Diagnosis, SuggestedChange
from allotment.engine.remedies import REMEDIES
from allotment.explanation.manifest_changes import change_in_manifests
from allotment.explanation.origin_mapping import awaited_claims, endless_owner, owner_of, template_of
from allotment.explanation.outdated_pods import DELETE_POD, outdated_pods, with_outdated_pods
from allotment.explanation.replacement import named, replacement_of
from allotment.explanation.report import Answer, Explanation
from allotment.explanation.subjects import ANY_POD, pod_spec_of
from allotment.model.core import Namespace, Pod
from allotment.model.loading.marks import Path, at, split_path
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.model.trees import to_tree
from allotment.shell_words import shell_line

_ALLOT: Final = "allot"
_ENDED: Final = frozenset({"Succeeded", "Failed"})
#: Where the devices are: in a running cluster, in the snapshot of one, or only in a description of hardware or files.
Place: TypeAlias = Literal["cluster", "snapshot", "hardware"]


def no_file_command(name: str) -> str:
    """The command for objects of files, if the question has no files."""
    return ""


class Origin(NamedTuple):
    """Where the objects of a question are from.

    ``objects``: all of them by kind and name (``Pod ml/trainer``). ``files``: the files to pass to commands.
    ``in_files``: the objects of these files. ``options``: those that select the cluster or hardware.
    ``connection``: the options that select it for kubectl. ``for_files``: the command for the files that makes the
    named pod or claim fit, or else that reports its mistake; empty if neither is known. ``is_repeatable``: whether all
    of this can be read again, which does not hold for standard input.
    """

    objects: Mapping[str, Object] = {}
    files: tuple[str, ...] = ()
    in_files: frozenset[str] = frozenset()
    place: Place = "cluster"
    options: tuple[str, ...] = ()
    connection: tuple[str, ...] = ()
    for_files: Callable[[str], str] = no_file_command
    is_repeatable: bool = True


def with_next_steps(explanation: Explanation, origin: Origin) -> Explanation:
    """The explanation with the next step of each refusal; the same for all pods of a workload with the same reason."""
    explanation = with_outdated_pods(explanation, origin.objects)
    known: dict[object, str] = {}
    answers = []
    for answer in explanation.answers:
        if answer.fits:
            answers.append(answer)
            continue
        reasons = answer.reasons
        whole = answer.owner or answer.group or answer.name
        key = (whole, reasons.headline.code, reasons.headline.summary) if reasons is not None else whole
        if key not in known:
            known[key] = next_step(answer, origin)
        note = manifest_note(answer, origin) if known[key] else ""
        notes = (*answer.notes, note) if note else answer.notes
        answers.append(replace(answer, next=known[key], notes=notes))
    return replace(explanation, answers=tuple(answers))


def next_step(answer: Answer, origin: Origin) -> str:
    """The next step after a refusal, as a command line; empty if the answer is not a refusal, or none can be run."""
    if answer.fits:
        return ""
    command = _find(answer, origin)
    return command if origin.is_repeatable or not command.startswith(_ALLOT) else ""


def _find(answer: Answer, origin: Origin) -> str:
    if answer.reasons is None:  # devices that a driver cannot prepare
        return _doctor(origin) or list_devices(origin)
    headline = answer.reasons.headline
    for find in (_of_changes, _of_files, _of_hardware, _of_code):
        if command := find(answer, headline, origin):
            return command
    return list_devices(origin)


def next_step_in_message(pod: str, reasons: Diagnosis) -> str:
    """The next step in a condition or event of a pod, whose readers may see only their own namespace.

    It is the command that makes the pod fit, or else `allot explain`, which says more than fits into an event.
    """
    answer = Answer(kind="Pod", name=pod, outcome="refused")
    changes = _complete(reasons.headline.changes)
    commands = [_change(change, answer, Origin()) for change in changes] if not _loses_hardware(changes) else []
    if commands and all(commands):
        return " && ".join(dict.fromkeys(commands))
    namespace, _, name = pod.partition("/")
    return _allot("explain", f"pod/{name}", "-n", namespace)


# --- the first remedy ------------------------------------------------------------------------------------------------


def commands_for_changes(answer: Answer, origin: Origin) -> str:
    """The commands for the first remedy of a refusal; empty if none make it."""
    return _of_changes(answer, answer.reasons.headline, origin) if answer.reasons is not None else ""


def manifest_note(answer: Answer, origin: Origin) -> str:
    """The changes to make in the author's files after `commands_for_changes`, which change only the cluster; empty if
    they change nothing that is in files."""
    commands = commands_for_changes(answer, origin)
    if answer.reasons is None or not (" replace " in commands or " patch " in commands or " scale " in commands):
        return ""
    headline = answer.reasons.headline
    scaled = _scaled(answer, headline.changes, origin)
    return change_in_manifests((scaled,) if scaled is not None else _complete(headline.changes))


def _of_changes(answer: Answer, refused: AllocationRefusal, origin: Origin) -> str:
    """The commands that make the changes of the first remedy; none if one of the changes is in a file."""
    changes = _complete(refused.changes)
    if not changes or _loses_hardware(changes):
        return ""
    if all(change.remedy == "wait" for change in changes):
        return _see_users(answer, changes, origin)
    if (scaled := _scaled(answer, changes, origin)) is not None:
        return _change(scaled, answer, origin)
    if broken := next((change.node for change in changes if change.remedy == "recover"), ""):
        return _kubectl(origin, "describe", "node", broken)
    commands = [_change(change, answer, origin) for change in changes if change.remedy != "wait"]
    if all(commands):
        deletion = _delete_pods(outdated_pods(answer, changes, origin.objects), origin)
        return " && ".join(dict.fromkeys((*commands, *deletion)))
    return _replace(answer, origin)


def _delete_pods(pods: Sequence[ObjectKey], origin: Origin) -> Iterator[str]:
    """The command that deletes these pods of one namespace; none if there are no pods."""
    if pods:
        yield _kubectl(origin, "delete", "pod", *(key.name for key in pods), "-n", pods[0].namespace)


def _loses_hardware(changes: Sequence[SuggestedChange]) -> bool:
    """Whether changes lose what the pod requires of devices; no command makes them, a person has to decide."""
    return any(change.remedy == "unselect-hardware" for change in changes)


def _complete(changes: Sequence[SuggestedChange]) -> list[SuggestedChange]:
    """The changes without those whose value a later one at the same path contains."""
    places = [(change.object, change.path) for change in changes]
    return [
        change
        for number, change in enumerate(changes)
        if change.becomes is None or places[number] not in places[number + 1 :]
    ]


def _change(change: SuggestedChange, answer: Answer, origin: Origin) -> str:
    """The kubectl command that makes a change; empty if kubectl cannot make it."""
    kind, key = named(change.object)
    if change.remedy == "uncordon":
        return _kubectl(origin, "uncordon", key.name)
    if change.remedy == DELETE_POD:
        return next(_delete_pods([key], origin))
    if change.object in origin.in_files:
        return ""
    if change.remedy == "allow" and kind == "Namespace":
        (label, value), *_ = dict(change.becomes).items()
        namespace = origin.objects.get(change.object)
        is_set = isinstance(namespace, Namespace) and label in namespace.metadata.labels
        return _kubectl(
            origin, "label", *(("--overwrite",) if is_set else ()), "namespace", key.name, f"{label}={value}"
        )
    value, pod = origin.objects.get(change.object), origin.objects.get(f"Pod {answer.name}")
    is_owner = isinstance(pod, Pod) and template_of(pod, answer.owner)[0] == change.object
    if value is None and not is_owner:  # the owner of an existing pod exists, even if it was not read
        return ""
    steps = _steps(change.path)
    if steps == ("spec", "replicas") and isinstance(change.becomes, int):
        return _kubectl(origin, "scale", kind.lower(), key.name, "-n", key.namespace, f"--replicas={change.becomes}")
    if not (kind in _PATCHABLE or (kind == "Pod" and steps == ("spec", "tolerations"))):
        return ""
    form, patch = _patch(steps, change.becomes, to_tree(value) if value is not None else {})
    where = ("-n", key.namespace) if key.namespace else ()
    text = json.dumps(patch, separators=(",", ":"), ensure_ascii=False)
    return _kubectl(origin, "patch", kind.lower(), key.name, *where, f"--type={form}", "-p", text) if patch else ""


def _scaled(answer: Answer, changes: Sequence[SuggestedChange], origin: Origin) -> SuggestedChange | None:
    """The change to as many replicas as have nodes, if the first remedy is to run fewer; None if it is another one, or
    if the number is not known: of a workload with pods of several versions, each holds devices."""
    pod = origin.objects.get(f"Pod {answer.name}")
    if [change.remedy for change in changes] != ["replicas"] or not isinstance(pod, Pod):
        return None
    where, path = template_of(pod, answer.owner or owner_of(pod))
    pods = [
        other
        for other in origin.objects.values()
        if isinstance(other, Pod) and template_of(other, owner_of(other))[0] == where
    ]
    running = [other for other in pods if other.spec.node_name and other.status.phase not in _ENDED]
    if not running or path != "spec.template." or len({owner_of(other) for other in pods}) > 1:
        return None
    return replace(changes[0], object=where, path="spec.replicas", becomes=len(running))


#: Kinds whose changes take effect; a pod's own spec and the specs of claims, templates and Jobs are immutable.
_PATCHABLE: Final = frozenset(
    {"Deployment", "StatefulSet", "DaemonSet", "ReplicationController", "CronJob", "DeviceClass"}
)


def _patch(steps: Path, becomes: Any, tree: Mapping[str, Any]) -> tuple[str, Any]:
    """The type and the text of a patch; the text is empty if no patch makes the change."""
    old = at(tree, steps)
    if steps[-1] == "tolerations" and isinstance(becomes, (list, tuple)):
        # Of the tolerations of a pod, none may be removed, and the API server has added some.
        pointer = _pointer(steps)
        new = [entry for entry in becomes if entry not in (old or ())]
        operations = [{"op": "add", "path": f"{pointer}/-", "value": entry} for entry in new]
        return "json", operations if old else [{"op": "add", "path": pointer, "value": new}]
    if any(isinstance(step, int) for step in steps):
        if becomes is None:
            return "json", [{"op": "remove", "path": _pointer(steps)}]
        value = {**(old or {}), **becomes} if isinstance(becomes, dict) else becomes
        return "json", [{"op": "add" if old is None else "replace", "path": _pointer(steps), "value": value}]
    patch = becomes
    for step in reversed(steps):
        patch = {step: patch}
    return "merge", patch


def _steps(path: str) -> Path:
    return tuple(step.strip('"') if isinstance(step, str) else step for step in split_path(path))


def _pointer(steps: Path) -> str:
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)


def _replace(answer: Answer, origin: Origin) -> str:
    """The commands that replace the objects whose specs are immutable, after those for the remaining changes."""
    found = replacement_of(answer, origin.objects, origin.in_files)
    if found is None or origin.place == "hardware" or not origin.is_repeatable:
        return ""
    before = [_change(change, answer, origin) for change in found.remaining if change.remedy != "wait"]
    subject = _subject(answer, origin)
    if not subject or not all(before):
        return ""
    namespace = answer.name.partition("/")[0]
    files = (word for file in origin.files for word in ("-f", file))
    show = _allot("explain", subject, "-n", namespace, *files, *origin.options, "-o", "manifests")
    moved = (named(name) for name in found.moved)
    after = [_kubectl(origin, "delete", kind.lower(), key.name, "-n", key.namespace) for kind, key in moved]
    create = f"{show} | {_kubectl(origin, 'replace', '--force', '-f', '-')}"
    return " && ".join(dict.fromkeys((*before, create, *after)))


def _subject(answer: Answer, origin: Origin) -> str:
    """The name of the answer for `allot explain`; that of the workload if its pod does not exist yet."""
    name = answer.name.partition("/")[2]
    if answer.kind == "ResourceClaim":
        return f"claim/{name}"
    if f"Pod {answer.name}" in origin.objects or answer.owner not in origin.objects:
        return "" if name.startswith(ANY_POD) else f"pod/{name}"
    kind, key = named(answer.owner)
    return f"{kind.lower()}/{key.name}"


def _see_users(answer: Answer, changes: Sequence[SuggestedChange], origin: Origin) -> str:
    """The command that shows the pods to wait for, or that deletes one that has ended but holds devices.

    Nothing can be waited for if the claims are those of the question itself, or their pods do not end.
    """
    own = answer.name.partition("/")[0]
    ended: list[ObjectKey] = []
    running: list[ObjectKey] = []
    claims: list[ObjectKey] = []
    endless = False
    held = (f"ResourceClaim {key}" for change in changes for key in awaited_claims(change))
    for name in dict.fromkeys(chain((change.object for change in changes), held)):
        claim = origin.objects.get(name)
        if not isinstance(claim, ResourceClaim) or claim.status.allocation is None:
            continue
        claims.append(claim.key)
        for user in claim.status.reserved_for:
            pod = origin.objects.get(f"Pod {ObjectKey(claim.key.namespace, user.name)}")
            if isinstance(pod, Pod):
                endless |= pod.status.phase not in _ENDED and bool(endless_owner(pod))
                (ended if pod.status.phase in _ENDED else running).append(pod.key)
    if endless and not ended:
        return ""
    for pods, verb in ((ended, "delete"), (running, "get")):
        pods = [key for key in pods if verb == "get" or key.namespace == own]
        if pods:
            first = pods[0].namespace
            names = dict.fromkeys(key.name for key in pods if key.namespace == first)
            return _kubectl(origin, verb, "pod", *names, "-n", first)
    if claims:
        first = claims[0].namespace
        return _kubectl(
            origin, "describe", "resourceclaim", *(key.name for key in claims if key.namespace == first), "-n", first
        )
    return ""


# --- files, codes, hardware ------------------------------------------------------------------------------------------


def _of_files(answer: Answer, refused: AllocationRefusal, origin: Origin) -> str:
    """The command of `allot check`, unless the first remedy is not an edit, or the search reached its limit, which each
    trial of a fix would do again."""
    if refused.code == SEARCH_GIVEN_UP or _loses_hardware(refused.changes):
        return ""
    first = refused.changes[0] if refused.changes else None
    is_edit = first is None or first.remedy not in ("wait", "driver", "enable")
    return origin.for_files(answer.name) if is_edit and origin.files and origin.is_repeatable else ""


#: Codes whose cause is in the driver, its slices or the control plane.
_DOCTOR_CODES: Final = frozenset({
    "driver-missing", "pool-incomplete", "pool-invalid", "pool-superseded", "all-pool-updating", "all-pool-invalid",
    "node-selector-unusable", "device-use-unknown", "feature-off", "extended-resource-missing", "node-feature-missing",
    "class-missing", "unknown-driver",
})  # fmt: skip
#: Codes with which nodes of another kind, or more of the same, help.
_PLAN_CODES: Final = BUSY | {
    "too-few-devices", "not-enough-capacity", "selector-matches-nothing", "class-matches-nothing",
    "constraint-values-differ", "no-alternative-fits", "node-resources-short",
}  # fmt: skip
#: code -> what kubectl lists.
_LISTED: Final[Mapping[str, str]] = {
    "claim-missing": "resourceclaims",
    "claim-not-owned": "resourceclaims",
    "template-missing": "resourceclaimtemplates",
    "wrong-namespace": "resourceclaims",
    "group-missing": "podgroups",
}


#: code -> the options of `allot claim` that write the missing object.
_CREATED: Final[Mapping[str, tuple[str, ...]]] = {"claim-missing": ("--share",), "template-missing": ()}


def _missing(answer: Answer, origin: Origin) -> str:
    """The name of the first claim or template that the pod names and that does not exist; empty if it is unknown."""
    value = origin.objects.get(answer.owner) or origin.objects.get(f"{answer.kind} {answer.name}")
    namespace = answer.name.partition("/")[0]
    for entry in pod_spec_of(value).resource_claims if value is not None else ():
        for kind, name in (
            ("ResourceClaim", entry.resource_claim_name),
            ("ResourceClaimTemplate", entry.resource_claim_template_name),
        ):
            if name and f"{kind} {ObjectKey(namespace, name)}" not in origin.objects:
                return name
    return ""


def _of_code(answer: Answer, refused: AllocationRefusal, origin: Origin) -> str:
    """The command for a cause that no change of an object removes.

    A claim that a pod of the cluster lacks may be in a file that the API server rejected; `allot claim` would write
    another one.
    """
    namespace = answer.name.partition("/")[0]
    is_new = origin.place == "hardware" or not origin.in_files.isdisjoint(
        {f"{answer.kind} {answer.name}", answer.owner}
    )
    if is_new and refused.code in _CREATED and (name := _missing(answer, origin)):
        return _allot("claim", "--gpus", "1", *_CREATED[refused.code], "--name", name, "-n", namespace)
    if refused.code in _DOCTOR_CODES:
        return _doctor(origin)
    if origin.place == "hardware":
        return ""
    if refused.code in _LISTED:
        return _kubectl(origin, "get", _LISTED[refused.code], "-n", namespace)
    if refused.code == "gang-incomplete":
        return _kubectl(origin, "get", "pods", "-n", namespace)
    if refused.code in ("node-not-eligible", "group-topology-missing"):
        return _kubectl(origin, "get", "nodes", "--show-labels")
    if f"ResourceClaim {refused.claim}" in origin.objects:
        _, key = named(f"ResourceClaim {refused.claim}")
        return _kubectl(origin, "describe", "resourceclaim", key.name, "-n", key.namespace)
    return ""


def _of_hardware(answer: Answer, refused: AllocationRefusal, origin: Origin) -> str:
    """`allot plan` for the pods of files, or of the cluster, that no present hardware serves."""
    scope = REMEDIES[refused.changes[0].remedy].scope if refused.changes else "devices"
    if refused.code not in _PLAN_CODES or scope in ("spelling", "placement"):
        return ""
    files = (word for file in origin.files for word in ("-f", file))
    return _allot("plan", *files, *(origin.options if origin.place != "hardware" else ()))


def _doctor(origin: Origin) -> str:
    return _allot("doctor", *origin.options) if origin.place != "hardware" else ""


def list_devices(origin: Origin) -> str:
    """The command that lists the devices; it is always possible."""
    if origin.place == "hardware" and not origin.options:
        return _allot("free", *(word for file in origin.files for word in ("-f", file)))
    return _allot("free", *origin.options)


# --- command lines ---------------------------------------------------------------------------------------------------


def _kubectl(origin: Origin, *words: str) -> str:
    return shell_line(("kubectl", *origin.connection, *words))


def _allot(*words: str) -> str:
    return shell_line((_ALLOT, *words))
