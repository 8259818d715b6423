"""``allot claim``: writes the claim for the required devices, alone or in the manifest of a workload."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import Final

from allotment.api.claim import requirements, written_claim
from allotment.api.claim_context import ClaimContext
from allotment.api.objects.file_writer import write_all
from allotment.cli.inputs.clusters import cluster_errors_of, live_cluster, sources
from allotment.cli.inputs.target_cluster import target_cluster
from allotment.cli.next_step import cluster_options, reads_stdin, version_options
from allotment.cli.output.console import folded, open_screen, print_notes, width_of
from allotment.cli.output.errors import Failure
from allotment.errors import InputError
from allotment.explanation.text import NEXT
from allotment.model.serialization import to_json, to_yaml
from allotment.shell_words import shell_line
from allotment.tools.claims.manifests import ClaimManifests
from allotment.tools.claims.request import LackingDevices, Requirements

EXIT_WRITTEN, EXIT_LACKING = 0, 1

_NOTHING: Final = (
    "for example: allot claim --gpus 1 --memory 80GB, or allot claim --mig 1g.10gb --for deploy/llm -f llm.yaml"
)


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
    containers = [name for text in arguments.container for name in text.split(",") if name]
    _require_workload(arguments, context, containers)
    try:
        required = _requirements(arguments, context)
        found = written_claim(
            context,
            required,
            name=arguments.name or "",
            namespace=arguments.namespace or "",
            workload=arguments.workload or "",
            containers=containers,
            comments=not arguments.quiet and arguments.output != "json",
        )
    except LackingDevices as error:
        _print_lacking(arguments, error)
        return EXIT_LACKING
    _print(arguments, context, found)
    if not arguments.quiet:
        print_notes(_notes(arguments, context, required, found))
    return EXIT_WRITTEN


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


def _requirements(arguments: Namespace, context: ClaimContext) -> Requirements:
    return requirements(
        context.supply,
        gpus=1 if arguments.gpus is None else arguments.gpus,
        all_devices=arguments.all,
        memory=arguments.memory or "",
        model=arguments.model or "",
        vendor=arguments.vendor or "",
        mig=arguments.mig,
        partition=arguments.partition,
        share=arguments.share,
        same_switch=arguments.same_switch,
        device_class=arguments.device_class or "",
        extended=arguments.extended,
    )


def _context(arguments: Namespace) -> ClaimContext:
    """Read the files of ``-f`` and the cluster."""
    cluster = target_cluster(arguments)
    files = sources(arguments, arguments.files)
    with cluster_errors_of(cluster):
        context = ClaimContext.of(files or None, cluster)
    if cluster.origin.place == "cluster":
        print_notes(context.notes)
    return context


def _with_current_cluster(arguments: Namespace, context: ClaimContext) -> ClaimContext:
    """Return the context with the devices of the lab or current context, if there is one and no hardware is given."""
    if context.supply.given:
        return context
    try:
        cluster = live_cluster(arguments)
        with cluster_errors_of(cluster):
            found = ClaimContext.of_files(context.files, cluster)
    except (InputError, Failure):
        return context
    print_notes(found.notes)
    return found


def _require_workload(arguments: Namespace, context: ClaimContext, containers: Sequence[str]) -> None:
    """Raise InputError for options that require a workload, or a workload without a manifest."""
    if arguments.workload:
        if not context.files.documents:
            raise InputError(f"--for {arguments.workload}: requires its manifest", "add -f FILE")
        return
    given = (("--container", containers), ("--patch", arguments.patch), ("--in-place", arguments.in_place))
    for option, is_set in given:
        if is_set:
            raise InputError(f"{option}: requires --for KIND/NAME", "and its manifest with -f FILE")


# --- output ----------------------------------------------------------------------------------------------------------


def _print(arguments: Namespace, context: ClaimContext, found: ClaimManifests) -> None:
    screen = open_screen()
    workload = found.workload
    if workload is not None and arguments.patch:
        screen.out.write(to_yaml([found.patch]) if arguments.output == "yaml" else to_json(found.patch) + "\n")
    elif workload is not None and arguments.in_place:
        document = workload.view.document
        if context.files.unwritable or document.origin.json:
            what = "standard input is not a file" if context.files.unwritable else f"{document.file} is JSON, not YAML"
            raise InputError(f"--in-place: {what}", "omit it, and redirect the output")
        write_all({document.file: found.text}, {document.file: document.origin.source})
    elif arguments.output == "json":
        screen.data(found.to_dict(), "json")
    else:
        screen.out.write(found.text)
        if workload is None and not arguments.quiet:
            lines = ["", "in the pod's spec:", *found.usage]
            screen.out.write("".join(f"# {line}\n" if line else "" for line in lines))


def _notes(arguments: Namespace, context: ClaimContext, required: Requirements, found: ClaimManifests) -> Iterable[str]:
    if found.workload is not None or required.share is not None:
        yield from found.notes
    else:
        yield from found.availability
    if arguments.patch:
        yield _how_to_patch(found)
    is_default_vendor = not (arguments.vendor or required.model or required.class_name or context.supply.given)
    if is_default_vendor and required.part == "whole" and not required.share:
        yield "written for NVIDIA; --vendor amd or any for others, --fleet or --context for the hardware of a cluster"


def _how_to_patch(found: ClaimManifests) -> str:
    workload, plan = found.workload, found.plan
    assert workload is not None
    namespace = f" -n {workload.namespace}" if workload.namespace else ""
    subject = f"{workload.view.kind.lower()} {workload.view.key.name}{namespace}"
    patch = f"kubectl patch {subject} --type {found.patch_type} --patch-file FILE"
    if not plan.new:
        return f"apply it with {patch}"
    return f"create {plan.new[0].kind} {plan.new[0].name} (the same command without --for, with --name), then {patch}"


def _print_lacking(arguments: Namespace, error: LackingDevices) -> None:
    """Print what the hardware lacks, and the command that lists the devices it has."""
    width = width_of(sys.stderr)
    files = (word for group in arguments.files for file in group for word in ("-f", file))
    options = (*cluster_options(arguments), *version_options(arguments))
    step = shell_line(("allot", "free", *(options or files)))
    last = () if reads_stdin(arguments) else (f"{NEXT}{step}",)
    problem = f"--{error.argument.replace('_', '-')}: {error.problem}" if error.argument else error.problem
    hint = folded(error.hint, width, "  ") if error.hint else ()
    for line in (*folded(f"allot: {problem}", width), *hint, *last):
        sys.stderr.write(f"{line}\n")
