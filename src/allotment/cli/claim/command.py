"""``allot claim``: writes the claim for the required devices, alone or in the manifest of a workload."""

from __future__ import annotations

import re
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from allotment.api.releases import features
from allotment.api.unread_resources import OF_DEVICES, must_know
from allotment.cli.check.file_writer import write_all
from allotment.cli.check.files import Files, read_files
from allotment.cli.inputs.objects import read_inputs
from allotment.cli.next_step import cluster_options, reads_stdin, version_options
from allotment.cli.output.console import folded, open_screen, print_notes, width_of
from allotment.cli.output.errors import Failure
from allotment.errors import InputError, InvalidManifests
from allotment.explanation.text import NEXT
from allotment.fleet.device_classes import CLASSES
from allotment.model import DEFAULT_RELEASE
from allotment.model.decoding import decode_all
from allotment.model.editing.edits import EditError
from allotment.model.editing.rewriting import rewrite
from allotment.model.features import Features
from allotment.model.loading import Document, load_text
from allotment.model.meta import Object
from allotment.model.resource import DeviceClass, ResourceSlice
from allotment.model.serialization import to_json, to_yaml
from allotment.tools.claims.alternatives import alternatives
from allotment.tools.claims.commented_yaml import yaml_text
from allotment.tools.claims.objects import Plan, check_requirements, default_name, plan_objects
from allotment.tools.claims.request import ClaimError, Memory, Part, Requirements, parse_memory, parse_share
from allotment.tools.claims.supply import DIALECTS, Supply, known_supply, supply_of
from allotment.tools.claims.verification import reason_for_refusal
from allotment.tools.claims.workload import (
    Workload,
    edits_of,
    find_workload,
    patch_of,
    require_no_claim,
    require_no_other_devices,
    usage_lines,
)

EXIT_WRITTEN, EXIT_LACKING = 0, 1

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_PROFILE: Final = re.compile(r"[0-9]+g\.[0-9]+gb\S*", re.IGNORECASE)
_NOTHING: Final = (
    "for example: allot claim --gpus 1 --memory 80GB, or allot claim --mig 1g.10gb --for deploy/llm -f llm.yaml"
)
#: The driver of each vendor's classes, if the given hardware is only ResourceSlices.
_VENDORS: Final = {dialect.driver: vendor for vendor, dialect in DIALECTS.items()}


@dataclass(frozen=True, slots=True)
class _Context:
    """The environment of the claim: the files of ``-f``, the release, the objects of a cluster, and its devices."""

    files: Files
    features: Features
    cluster: tuple[Object, ...]
    supply: Supply


def run(arguments: Namespace) -> int:
    """Write a claim; return 0 if the given hardware has the devices, else 1."""
    context = _context(arguments)
    if not _is_requested(arguments):
        if not _is_terminal():
            raise InputError(
                "nothing requested: expected --gpus N, --memory, --model, --mig, --share or --all", _NOTHING
            )
        from allotment.cli.claim.questions import prompt_for_options

        context = _with_current_cluster(arguments, context)
        prompt_for_options(arguments, context.supply)
    try:
        return _write(arguments, context, _requirements(arguments, context.supply))
    except ClaimError as error:
        if not error.lacking:
            raise InputError(str(error), error.hint) from None
        _print_lacking(arguments, str(error), error.hint)
        return EXIT_LACKING


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _is_requested(arguments: Namespace) -> bool:
    options = ("memory", "model", "vendor", "device_class", "workload")
    optional = ("gpus", "mig", "partition", "share")
    return (
        any(getattr(arguments, name) for name in options)
        or any(getattr(arguments, name) is not None for name in optional)
        or arguments.all
        or arguments.extended
    )


# --- input -----------------------------------------------------------------------------------------------------------


def _requirements(arguments: Namespace, supply: Supply) -> Requirements:
    """Return the request of the options. Raises ClaimError."""
    part: Part = "mig" if arguments.mig is not None else "partition" if arguments.partition is not None else "whole"
    profile, model = arguments.mig or arguments.partition or "", arguments.model or ""
    memory = parse_memory(arguments.memory) if arguments.memory else None
    if part == "mig" and profile and not _PROFILE.fullmatch(profile):
        profile, memory = "", _mig_memory(profile, memory)
    if memory is None and not supply.has_product(model) and (size := re.search(r"(?i)(?<![a-z0-9])[0-9]+ ?gb", model)):
        memory = parse_memory(size[0])
    return Requirements(
        gpus=1 if arguments.gpus is None else arguments.gpus,
        all_devices=arguments.all,
        vendor=arguments.vendor or "",
        model=model,
        memory=memory,
        part=part,
        profile=profile.lower(),
        share=parse_share(arguments.share) if arguments.share is not None else None,
        same_root=arguments.same_switch,
        class_name=arguments.device_class or "",
        extended=arguments.extended,
    )


def _mig_memory(text: str, memory: Memory | None) -> Memory:
    if memory is not None:
        raise ClaimError(f"--mig: expected a profile, found {text!r}", "for example 1g.10gb")
    try:
        return parse_memory(text, "--mig")
    except ClaimError:
        raise ClaimError(
            f"--mig: expected a profile or a size, found {text!r}", "for example 1g.10gb or 10GB"
        ) from None


def _context(arguments: Namespace) -> _Context:
    """Read the files of ``-f`` and the cluster."""
    files = Files()
    if names := [name for group in arguments.files for name in group]:
        files = read_files(names, lambda file: False)
        if files.problems:
            raise InvalidManifests(files.problems, files.sources.get)
    known, cluster = _cluster(arguments)
    cluster = (*cluster, *_given(files.documents, known))
    has_slices = any(isinstance(value, ResourceSlice) for value in cluster)
    if not has_slices and not (arguments.cluster or arguments.fleet or arguments.context or arguments.kubeconfig):
        return _Context(files, known, (), known_supply())
    return _given_context(files, known, cluster)


def _given_context(files: Files, known: Features, cluster: tuple[Object, ...]) -> _Context:
    slices = [value for value in cluster if isinstance(value, ResourceSlice)]
    classes = [value for value in cluster if isinstance(value, DeviceClass)]
    if not classes:  # slices alone: the driver's chart, which made them, has installed its classes
        vendors = dict.fromkeys(_VENDORS[s.spec.driver] for s in slices if s.spec.driver in _VENDORS)
        classes = [found for vendor in vendors for found in CLASSES[vendor]]
        cluster = (*cluster, *classes)
    return _Context(files, known, cluster, supply_of(slices, classes))


def _with_current_cluster(arguments: Namespace, context: _Context) -> _Context:
    """Return the context with the devices of the lab or current context, if there is one and no hardware is given."""
    if context.supply.given:
        return context
    try:
        known, cluster = _live(arguments)
    except (InputError, Failure):
        return context
    return _given_context(context.files, known, cluster)


def _cluster(arguments: Namespace) -> tuple[Features, tuple[Object, ...]]:
    if arguments.context or arguments.kubeconfig:
        if arguments.fleet or arguments.cluster:
            raise InputError("--context: not allowed with --cluster or --fleet", "use only one of them")
        return _live(arguments)
    if not (arguments.fleet or arguments.cluster):
        return features(arguments.kube_version or DEFAULT_RELEASE, arguments.feature_gates), ()
    inputs = read_inputs(Namespace(**{**vars(arguments), "files": []}))
    must_know(inputs.cluster, *OF_DEVICES)
    return inputs.features, inputs.cluster


def _live(arguments: Namespace) -> tuple[Features, tuple[Object, ...]]:
    from allotment.cli.live.cluster_state import read_live
    from allotment.cluster.inspection.snapshot import DEVICES, PODS

    live = read_live(arguments, (*DEVICES, *PODS))
    must_know(live.values, *OF_DEVICES)
    print_notes(live.notes)
    return live.features, live.values


def _given(documents: Iterable[Document], known: Features) -> tuple[Object, ...]:
    """Return the slices, classes and nodes among the files of ``-f``: they describe the hardware."""
    of_hardware = [document for document in documents if document.kind in ("ResourceSlice", "DeviceClass", "Node")]
    decoded = decode_all(of_hardware, strict=False, release=known.kube)
    if decoded.problems:
        raise InvalidManifests(decoded.problems, lambda file: None)
    return tuple(manifest.value for manifest in decoded.manifests if isinstance(manifest.value, Object))


# --- output ----------------------------------------------------------------------------------------------------------


def _write(arguments: Namespace, context: _Context, required: Requirements) -> int:
    check_requirements(required, context.features)
    namespace = arguments.namespace or "default"
    workload = _workload(arguments, context, namespace)
    found = alternatives(required, context.supply)
    name = _name(arguments, required, workload)
    plan = plan_objects(required, found, name, _namespace(arguments, workload))
    text = _manifest(arguments, context, plan, workload)
    if context.supply.given:
        lacking = reason_for_refusal(text, plan, workload, context.cluster, context.features, namespace)
        if lacking:
            _print_lacking(arguments, f"the hardware does not serve this claim: {lacking}", "")
            return EXIT_LACKING
    _print(arguments, context, plan, workload, text)
    if not arguments.quiet:
        print_notes(_notes(arguments, context, required, plan, workload))
    return EXIT_WRITTEN


def _workload(arguments: Namespace, context: _Context, namespace: str) -> Workload | None:
    containers = [name for text in arguments.container for name in text.split(",") if name]
    if not arguments.workload:
        for option, is_set in (
            ("--container", containers),
            ("--patch", arguments.patch),
            ("--in-place", arguments.in_place),
        ):
            if is_set:
                raise InputError(f"{option}: requires --for KIND/NAME", "and its manifest with -f FILE")
        return None
    if not context.files.documents:
        raise InputError(f"--for {arguments.workload}: requires its manifest", "add -f FILE")
    workload = find_workload(context.files.documents, arguments.workload, containers, namespace)
    require_no_other_devices(workload)
    if not arguments.name:
        require_no_claim(workload)
    shared = arguments.share == ""
    if shared and workload.view.kind == "DaemonSet":
        raise InputError(
            "--share: the pods of a DaemonSet run on different nodes, so they cannot share a claim", "omit it"
        )
    return workload


def _name(arguments: Namespace, required: Requirements, workload: Workload | None) -> str:
    name: str = arguments.name or default_name(
        required, workload.view.key.name if workload and not required.extended else ""
    )
    if not _NAME.fullmatch(name):
        raise InputError(f"--name: expected lower-case letters, digits, - and ., found {name!r}")
    return name


def _namespace(arguments: Namespace, workload: Workload | None) -> str:
    """Return the namespace to write: that of the workload as written, or of ``-n`` without a workload."""
    return workload.namespace if workload is not None else arguments.namespace or ""


def _manifest(arguments: Namespace, context: _Context, plan: Plan, workload: Workload | None) -> str:
    """Return the new objects as YAML, after the workload's file with the claim in place."""
    comments = not arguments.quiet and arguments.output != "json"
    new = "---\n".join(yaml_text(created.tree, comments) for created in plan.new)
    if workload is None:
        return new
    document = workload.view.document
    for created in plan.new:
        same = [d for d in context.files.documents if (d.kind, d.name) == (created.kind, created.name)]
        if same:
            place = same[0].position(("metadata", "name"))
            raise InputError(f"{created.kind} {created.name} exists already at {place}", "choose another --name")
    try:
        edits = [(document, edit) for edit in edits_of(plan, workload)]
        changed = rewrite(document.origin.source, document.file, edits)
    except EditError as error:
        raise InputError(f"{document.file}: cannot be edited: {error}", "print a patch instead with --patch") from None
    if document.origin.json:
        changed = "".join(yaml_text(loaded.tree, False) for loaded in load_text(changed).documents)
    return "---\n".join(filter(None, (changed if changed.endswith("\n") else f"{changed}\n", new)))


def _print(arguments: Namespace, context: _Context, plan: Plan, workload: Workload | None, text: str) -> None:
    screen = open_screen()
    if workload is not None and arguments.patch:
        _, patch = patch_of(plan, workload)
        screen.out.write(to_yaml([patch]) if arguments.output == "yaml" else to_json(patch) + "\n")
    elif workload is not None and arguments.in_place:
        document = workload.view.document
        if context.files.stdin or document.origin.json:
            what = "standard input is not a file" if context.files.stdin else f"{document.file} is JSON, not YAML"
            raise InputError(f"--in-place: {what}", "omit it, and redirect the output")
        write_all({document.file: text}, {document.file: document.origin.source})
    elif arguments.output == "json":
        trees = [document.tree for document in load_text(text).documents]
        screen.data(trees[0] if len(trees) == 1 else {"apiVersion": "v1", "kind": "List", "items": trees}, "json")
    else:
        screen.out.write(text)
        if workload is None and not arguments.quiet:
            lines = ["", "in the pod's spec:", *usage_lines(plan)]
            screen.out.write("".join(f"# {line}\n" if line else "" for line in lines))


def _notes(
    arguments: Namespace, context: _Context, required: Requirements, plan: Plan, workload: Workload | None
) -> Iterable[str]:
    if workload is not None:
        containers = ", ".join(container.name for container in workload.containers)
        for created in plan.new:
            yield f"{created.kind} {created.name} for container {containers} of {workload.name}: {created.why}"
        if not plan.new and plan.limits is not None:
            yield f"{workload.name} requests {plan.limits[0]}, which the driver's DeviceClass serves"
        if arguments.patch:
            kind, _ = patch_of(plan, workload)
            yield _how_to_patch(arguments, kind, plan, workload)
    elif required.share is not None and plan.claim is not None:
        yield f"{plan.claim.kind}: {plan.claim.why}"
    is_default_vendor = not (arguments.vendor or required.model or required.class_name or context.supply.given)
    if is_default_vendor and required.part == "whole" and not required.share:
        yield "written for NVIDIA; --vendor amd or any for others, --fleet or --context for the hardware of a cluster"


def _how_to_patch(arguments: Namespace, kind: str, plan: Plan, workload: Workload) -> str:
    namespace = f" -n {workload.namespace}" if workload.namespace else ""
    subject = f"{workload.view.kind.lower()} {workload.view.key.name}{namespace}"
    patch = f"kubectl patch {subject} --type {kind} --patch-file FILE"
    if not plan.new:
        return f"apply it with {patch}"
    return f"create {plan.new[0].kind} {plan.new[0].name} (the same command without --for, with --name), then {patch}"


def _print_lacking(arguments: Namespace, problem: str, hint: str) -> None:
    """Print what the hardware lacks, and the command that lists the devices it has."""
    width = width_of(sys.stderr)
    files = (word for group in arguments.files for file in group for word in ("-f", file))
    options = (*cluster_options(arguments), *version_options(arguments))
    step = shlex.join(("allot", "free", *(options or files)))
    last = () if reads_stdin(arguments) else (f"{NEXT}{step}",)
    for line in (*folded(f"allot: {problem}", width), *(folded(hint, width, "  ") if hint else ()), *last):
        sys.stderr.write(f"{line}\n")
