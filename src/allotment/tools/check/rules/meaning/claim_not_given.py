"""M405: a claim or template that is nowhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from allotment.engine.diagnosis.published_names import near
from allotment.model.core import Pod
from allotment.model.editing.edits import RenameKey, SetValue
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import Target, promised_templates, targets
from allotment.tools.check.rule import Fix, Found, Rule
from allotment.tools.views import ClaimKind

#: Names that one name is compared with.
_MOST_COMPARED = 50
_FIELDS: dict[ClaimKind, str] = {
    "ResourceClaim": "resourceClaimName",
    "ResourceClaimTemplate": "resourceClaimTemplateName",
}


def _find(bundle: Bundle) -> Iterator[Found]:
    promised = promised_templates(bundle)
    for target in targets(bundle):
        entry = target.entry
        if target.known or (entry.kind == "ResourceClaimTemplate" and target.key in promised):
            continue
        if elsewhere(bundle, target):
            continue  # M406
        told = bool(target.pod.document.kind)  # of a fragment nobody knows in which namespace it ends
        where = f"namespace {target.key.namespace}" if told else "its namespace"
        absent = _cluster_tells(bundle)
        fix, guess = _meant(bundle, target)
        if absent:
            message = f"{target.what} is neither in the files nor in {where} of the cluster: the pod stays pending"
        else:
            message = f"{target.what} is not in the files: the pod stays pending until {where} has it"
        yield Found(
            target.pod.document,
            entry.name_path,
            message,
            help=guess or _help(entry.kind),
            fix=fix,
            level="error" if absent else "warning" if fix is not None else "note",
        )


def elsewhere(bundle: Bundle, target: Target) -> list[str]:
    """The other namespaces in which an object of the kind and name is, in the files or in the cluster."""
    if not target.pod.document.kind:
        return []
    stored = bundle.cluster_claims if target.entry.kind == "ResourceClaim" else bundle.cluster_templates
    keys = [key for kind, key in bundle.claims_by_key if kind == target.entry.kind]
    found = {key.namespace for key in (*keys, *stored) if key.name == target.entry.refers_to}
    return sorted(found - {target.key.namespace})


def _cluster_tells(bundle: Bundle) -> bool:
    """Whether a cluster was given whose claims are known; a dump without any, and without pods, may leave them out."""
    world = bundle.world
    if world is None or world.hardware:
        return False
    return bool(bundle.cluster_claims or bundle.cluster_templates or world.of(Pod))


def _meant(bundle: Bundle, target: Target) -> tuple[Fix | None, str]:
    """What of the files can be meant, and how to say so."""
    entry, document = target.entry, target.pod.document
    other: ClaimKind = "ResourceClaim" if entry.kind == "ResourceClaimTemplate" else "ResourceClaimTemplate"
    if (other, target.key) in bundle.claims_by_key:
        edit = RenameKey(entry.name_path, _FIELDS[other])
        fix = Fix(f"name it as {_FIELDS[other]}", ((document, edit),), safe=False)
        return fix, f"{entry.refers_to} is a {other}"
    namespace = target.key.namespace
    here = (k.name for kind, k in bundle.claims_by_key if kind == entry.kind and k.namespace == namespace)
    close = near(entry.refers_to, _alike(entry.refers_to, here))
    if not close:
        return None, ""
    guess = f"did you mean {' or '.join(close)}?"
    if len(close) > 1:
        return None, guess
    return Fix(f"name {close[0]}", ((document, SetValue(entry.name_path, close[0])),), safe=False), guess


def _alike(name: str, known: Iterable[str]) -> list[str]:
    """Names that are worth comparing letter by letter, which takes its time: they begin or end as ``name`` does."""
    return list(islice((one for one in known if one[:3] == name[:3] or one[-3:] == name[-3:]), _MOST_COMPARED))


def _help(kind: ClaimKind) -> str:
    return f"check it together with the file of the {kind}, or give --cluster"


RULE = Rule(
    code="M405",
    name="claim-not-given",
    family="meaning",
    level="warning",
    summary="a pod names a claim or template that is neither in the files nor in the cluster",
    why=(
        "A pod whose claim or template does not exist is accepted, and then waits outside of the scheduling queue: it "
        "stays Pending with neither a condition nor an event of the scheduler. It is a note while only files are "
        "given, since the object may be made by others; a warning where a name in the files comes so near that a slip "
        "is likely; and an error where the given cluster does not have it."
    ),
    bad=examples.together(
        examples.template("single-gpu"), examples.pod("server", "resourceClaimTemplateName: singel-gpu")
    ),
    good=examples.together(
        examples.template("single-gpu"), examples.pod("server", "resourceClaimTemplateName: single-gpu")
    ),
    find=_find,
    fixable="unsafe",
    see="https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/",
)
