"""M406: a claim or template in another namespace than the pod."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.editing.edits import SetValue
from allotment.model.meta import ObjectKey
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import Target, has_namespace, promised_templates, targets
from allotment.tools.check.rule import Fix, Found, Rule
from allotment.tools.check.rules.meaning.claim_not_given import elsewhere


def _find(bundle: Bundle) -> Iterator[Found]:
    everything = list(targets(bundle))
    promised = promised_templates(bundle)
    for target in everything:
        if target.known or target.key in promised:
            continue
        others = elsewhere(bundle, target)
        if not others:
            continue
        view = bundle.claims_by_key.get((target.entry.kind, ObjectKey(others[0], target.entry.refers_to)))
        # What says no namespace goes where kubectl is told to put it.
        sure = has_namespace(target.pod) and (view is None or has_namespace(view))
        yield Found(
            target.pod.document,
            target.entry.name_path,
            f"{target.what} is in namespace {others[0]}, the pod in {target.key.namespace}: a pod can only use those "
            "of its own namespace",
            help="" if sure else "an object without metadata.namespace goes where kubectl -n says, or to default",
            fix=_fix(bundle, target, others, everything),
            level=None if sure else "warning",
        )


def _fix(bundle: Bundle, target: Target, others: list[str], everything: list[Target]) -> Fix | None:
    """Bring both together: a pod that says no namespace goes to its claim, otherwise the claim goes to the pod.

    It is left where it is if others use it there, or if pods of several namespaces want it.
    """
    if len(others) > 1:
        return None
    kind, name, namespace = target.entry.kind, target.entry.refers_to, target.key.namespace
    view = bundle.claims_by_key.get((kind, ObjectKey(others[0], name)))
    if view is None:
        return None
    if has_namespace(view) and not has_namespace(target.pod):
        own = [t for t in everything if t.pod.document is target.pod.document]
        if any(t.known for t in own) or any(others != elsewhere(bundle, t) for t in own):
            return None
        text = f"put the {target.pod.kind} into namespace {others[0]}"
        edit = SetValue(("metadata", "namespace"), others[0], after="name")
        return Fix(text, ((target.pod.document, edit),), safe=False)
    alike = [t for t in everything if t.entry.kind == kind and t.entry.refers_to == name]
    if any(t.key.namespace != namespace for t in alike):
        return None
    text = f"put the {kind} into namespace {namespace}"
    edit = SetValue(("metadata", "namespace"), namespace, after="name")
    return Fix(text, ((view.document, edit),), safe=False)


RULE = Rule(
    code="M406",
    name="other-namespace",
    family="meaning",
    level="error",
    summary="the claim or template that a pod names is in another namespace",
    why=(
        "A pod names claims and templates without a namespace, and Kubernetes looks for them in the pod's own. From a "
        "template elsewhere no claim is ever made, so the pod stays Pending, and kubectl describe shows neither a "
        "condition nor an event of the scheduler."
    ),
    bad=examples.together(
        examples.template("mig-1g-5gb", namespace="demo-1", class_name="mig.nvidia.com", request="slice"),
        examples.pod("classifier", "resourceClaimTemplateName: mig-1g-5gb", namespace="demo", claim="slice"),
    ),
    good=examples.together(
        examples.template("mig-1g-5gb", namespace="demo", class_name="mig.nvidia.com", request="slice"),
        examples.pod("classifier", "resourceClaimTemplateName: mig-1g-5gb", namespace="demo", claim="slice"),
    ),
    find=_find,
    fixable="unsafe",
    see="https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/",
)
