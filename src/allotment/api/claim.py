"""The claim for the devices that a workload needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from allotment.api.choices import require_choice
from allotment.api.claim_context import ClaimContext
from allotment.api.cluster import Cluster, cluster_given
from allotment.api.load import Source
from allotment.api.manifest_files import read_manifest_files
from allotment.errors import InputError
from allotment.model.editing.edits import EditError
from allotment.model.editing.rewriting import rewrite
from allotment.model.loading import load_text
from allotment.phrases import split_words
from allotment.tools.claims.alternatives import alternatives
from allotment.tools.claims.commented_yaml import yaml_text
from allotment.tools.claims.manifests import ClaimManifests
from allotment.tools.claims.objects import Plan, check_requirements, default_name, plan_objects
from allotment.tools.claims.request import (
    ClaimError,
    LackingDevices,
    Memory,
    Part,
    Requirements,
    parse_memory,
    parse_share,
)
from allotment.tools.claims.sentences import ClaimSentence, claim_sentences
from allotment.tools.claims.supply import Supply
from allotment.tools.claims.verification import refusal_of
from allotment.tools.claims.workload import (
    Workload,
    edits_of,
    find_workload,
    require_no_claim,
    require_no_other_devices,
)

#: The vendor of the devices; ``""``: that of the model or hardware, or else NVIDIA.
Vendor: TypeAlias = Literal["", "nvidia", "amd", "any", "example"]

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_PROFILE: Final = re.compile(r"[0-9]+g\.[0-9]+gb\S*", re.IGNORECASE)


def claim(
    *,
    gpus: int = 1,
    all_devices: bool = False,
    memory: str = "",
    model: str = "",
    vendor: Vendor = "",
    mig: str | None = None,
    partition: str | None = None,
    share: str | None = None,
    same_switch: bool = False,
    device_class: str = "",
    extended: bool = False,
    name: str = "",
    namespace: str = "",
    workload: str = "",
    containers: Sequence[str] = (),
    objects: Source | None = None,
    cluster: Cluster | None = None,
) -> ClaimManifests:
    """Return the claim for the required devices, alone or in the manifest of a workload.

    ``gpus``: the number of devices; ``all_devices``: all matching devices of a node. ``memory``: advertised memory of
    each device, or more: ``80GB``. ``model``: ``A100``, ``MI300X``. ``mig``: MIG devices of a profile such as
    ``1g.10gb``, or the smallest of a size; ``partition``: GPU partitions (AMD) of a compute mode such as ``cpx``; both
    can be empty. ``share``: a part of a device's memory, ``10Gi`` or ``1/3``; if empty, the pods share one claim.
    ``same_switch``: all devices on the same PCIe root. ``device_class``: by default the driver's. ``extended``: request
    an extended resource instead. ``name``: by default from the workload or the request. ``workload``: the one in
    ``objects`` that gets the devices, such as ``deploy/llm``, in its ``containers``, by default the only one.
    ``cluster``: the claim is written for its devices and tested there; by default it is written for all known hardware.
    Raises InputError for a request that no claim can state, LackingDevices if the cluster does not serve it.
    """
    require_choice("vendor", vendor, Vendor)
    context = ClaimContext.of(objects, cluster_given(cluster))
    required = requirements(
        context.supply, gpus=gpus, all_devices=all_devices, memory=memory, model=model, vendor=vendor, mig=mig,
        partition=partition, share=share, same_switch=same_switch, device_class=device_class, extended=extended,
    )  # fmt: skip
    return written_claim(
        context, required, name=name, namespace=namespace, workload=workload, containers=split_words(containers)
    )


def describe_claims(*sources: Source, cluster: Cluster | None = None, namespace: str = "") -> tuple[ClaimSentence, ...]:
    """Return a sentence for each claim and template: what it requests.

    ``cluster``: only its release matters. ``namespace``: that of objects which state none. Raises InputError if there
    is no claim.
    """
    features = cluster_given(cluster).features
    files = read_manifest_files(sources)
    files.require_syntax()
    found = tuple(claim_sentences(files.documents, features, namespace or "default"))
    if not found:
        raise InputError("the files contain no ResourceClaim or ResourceClaimTemplate", "allot claim writes one")
    return found


# --- requirements ----------------------------------------------------------------------------------------------------


def requirements(
    supply: Supply,
    *,
    gpus: int = 1,
    all_devices: bool = False,
    memory: str = "",
    model: str = "",
    vendor: str = "",
    mig: str | None = None,
    partition: str | None = None,
    share: str | None = None,
    same_switch: bool = False,
    device_class: str = "",
    extended: bool = False,
) -> Requirements:
    """Return the required devices as values. Raises ClaimError."""
    if mig is not None and partition is not None:
        raise ClaimError("not allowed with partition", "use only one of them", argument="mig")
    part: Part = "mig" if mig is not None else "partition" if partition is not None else "whole"
    profile = mig or partition or ""
    amount = parse_memory(memory) if memory else None
    if part == "mig" and profile and not _PROFILE.fullmatch(profile):
        profile, amount = "", _mig_memory(profile, amount)
    if amount is None and not supply.has_product(model) and (size := re.search(r"(?i)(?<![a-z0-9])[0-9]+ ?gb", model)):
        amount = parse_memory(size[0])
    return Requirements(
        gpus=gpus,
        all_devices=all_devices,
        vendor=vendor,
        model=model,
        memory=amount,
        part=part,
        profile=profile.lower(),
        share=parse_share(share) if share is not None else None,
        same_root=same_switch,
        class_name=device_class,
        extended=extended,
    )


def _mig_memory(text: str, memory: Memory | None) -> Memory:
    if memory is not None:
        raise ClaimError(f"expected a profile, found {text!r}", "for example 1g.10gb", argument="mig")
    try:
        return parse_memory(text, "mig")
    except ClaimError:
        hint = "for example 1g.10gb or 10GB"
        raise ClaimError(f"expected a profile or a size, found {text!r}", hint, argument="mig") from None


# --- manifests -------------------------------------------------------------------------------------------------------


def written_claim(
    context: ClaimContext,
    required: Requirements,
    *,
    name: str = "",
    namespace: str = "",
    workload: str = "",
    containers: Sequence[str] = (),
    comments: bool = True,
    is_tried: bool = True,
) -> ClaimManifests:
    """Return the claim for required devices. ``is_tried``: in the cluster, if one is given.

    Raises ClaimError and InputError.
    """
    check_requirements(required, context.features)
    user = _workload(context, required, workload, containers, namespace or "default", is_named=bool(name))
    found = alternatives(required, context.supply)
    # The namespace is that of the workload as written.
    written_in = user.namespace if user is not None else namespace
    plan = plan_objects(required, found, _name(name, required, user), written_in)
    text = _text(context, plan, user, comments)
    refused = None
    if context.supply.given and is_tried:
        refused = refusal_of(text, plan, user, context.cluster, context.features, namespace or "default")
    if refused is not None and not refused.is_temporary:
        raise LackingDevices(f"the hardware does not serve this claim: {refused.reason}")
    return ClaimManifests(text, plan, user, refused.reason if refused is not None else "")


def _workload(
    context: ClaimContext,
    required: Requirements,
    subject: str,
    containers: Sequence[str],
    namespace: str,
    *,
    is_named: bool,
) -> Workload | None:
    if not subject:
        if containers:
            raise InputError("requires a workload", "state its kind and name", argument="containers")
        return None
    if not context.files.documents:
        raise InputError(f"{subject} requires its manifest", "add it to the objects", argument="workload")
    found = find_workload(context.files.documents, subject, containers, namespace)
    require_no_other_devices(found)
    if not is_named:
        require_no_claim(found)
    if required.is_shared and found.view.kind == "DaemonSet":
        raise InputError(
            "the pods of a DaemonSet run on different nodes, so they cannot share a claim", "omit it", argument="share"
        )
    return found


def _name(name: str, required: Requirements, workload: Workload | None) -> str:
    chosen = name or default_name(required, workload.view.key.name if workload and not required.extended else "")
    if not _NAME.fullmatch(chosen):
        raise InputError(f"expected lower-case letters, digits, - and ., found {chosen!r}", argument="name")
    return chosen


def _text(context: ClaimContext, plan: Plan, workload: Workload | None, comments: bool) -> str:
    """Return the new objects as YAML, after the workload's file with the claim in place."""
    new = "---\n".join(yaml_text(created.tree, comments) for created in plan.new)
    if workload is None:
        return new
    document = workload.view.document
    for created in plan.new:
        same = [d for d in context.files.documents if (d.kind, d.name) == (created.kind, created.name)]
        if same:
            place = same[0].position(("metadata", "name"))
            raise InputError(f"{created.kind} {created.name} exists already at {place}", "choose another name")
    try:
        edits = [(document, edit) for edit in edits_of(plan, workload)]
        changed = rewrite(document.origin.source, document.file, edits)
    except EditError as error:
        raise InputError(f"{document.file}: cannot be edited: {error}", "use a patch instead") from None
    if document.origin.json:
        changed = "".join(yaml_text(loaded.tree, False) for loaded in load_text(changed).documents)
    return "---\n".join(filter(None, (changed if changed.endswith("\n") else f"{changed}\n", new)))
