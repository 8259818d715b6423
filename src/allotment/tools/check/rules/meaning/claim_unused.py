"""M411: a claim of a pod that no container uses, so that its devices are allocated but unused."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.explanation.container_devices import unused_claim_text
from allotment.model.editing.edits import Edit, InsertItem, SetValue
from allotment.model.meta import ObjectKey
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.sharing import has_exclusive_name, is_exclusive
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import ContainerView, EntryView, PodView, at, items, mapping, text


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for pod in bundle.pods:
        entries = {entry.name for entry in pod.entries}
        used_names = {use.name for container in pod.containers for use in container.uses}
        used_names |= {
            text(use.get("name"))
            for _, container in items(pod.tree.get("ephemeralContainers"))
            for _, use in items(mapping(container.get("resources")).get("claims"))
        }
        # S109 reports containers with an unknown claim name, because the API server rejects them.
        if (
            not pod.containers
            or used_names - entries
            or any(_has_invalid_claims(pod, container) for container in pod.containers)
        ):
            continue
        for entry in pod.entries:
            if entry.name and entry.name not in used_names and _is_for_containers(bundle, pod, entry):
                yield RuleMatch(
                    pod.document,
                    (*entry.path, "name"),
                    unused_claim_text(entry.name),
                    help="name it in resources.claims of the container that needs it",
                    fix=_fix(pod, entry),
                )


def _has_invalid_claims(pod: PodView, container: ContainerView) -> bool:
    """Whether a container's claims have a type that the API server rejects, which another rule reports."""
    claims = at(pod.document.tree, (*container.path, "resources", "claims"))
    return claims is not None and (not isinstance(claims, list) or any(not isinstance(item, dict) for item in claims))


def _is_for_containers(bundle: Bundle, pod: PodView, entry: EntryView) -> bool:
    """Whether only containers can use the devices; network drivers make devices available to the whole pod."""
    view = bundle.claims_by_key.get((entry.kind, ObjectKey(pod.key.namespace, entry.refers_to)))
    if view is None:
        return has_exclusive_name(entry.name) or has_exclusive_name(entry.refers_to)
    return any(is_exclusive(request) for request in view.requests)


def _fix(pod: PodView, entry: EntryView) -> Fix | None:
    """The fix that adds the claim to the container, if there is only one."""
    containers = [container for container in pod.containers if not container.init]
    if len(containers) != 1:
        return None
    container = containers[0]
    use = {"name": entry.name}
    resources = at(pod.document.tree, (*container.path, "resources"))
    claims = mapping(resources).get("claims")
    edit: Edit
    if resources is None:
        edit = SetValue((*container.path, "resources"), {"claims": [use]})
    elif isinstance(claims, list) and claims:
        edit = InsertItem((*container.path, "resources", "claims"), len(claims), use)
    else:
        edit = SetValue((*container.path, "resources", "claims"), [use])
    return Fix(f"add it to container {container.name}", ((pod.document, edit),), safe=False)


RULE = Rule(
    code="M411",
    name="claim-unused",
    family="meaning",
    level="warning",
    summary="no container uses one of the pod's claims: the claim's devices are allocated but unused",
    why=(
        "A pod's claims are allocated and prepared whether or not its containers use them, and their devices are not "
        "available to others while the pod exists. A container gets devices only if it names the claim in "
        "resources.claims; otherwise it starts without them, and no error is reported. Devices other than "
        "accelerators are not reported: a network interface, for example, is available to the whole pod."
    ),
    bad=examples.join_documents(
        examples.template("single-gpu"),
        examples.pod("server", "resourceClaimTemplateName: single-gpu", resources="limits:\n  memory: 1Gi"),
    ),
    good=examples.join_documents(
        examples.template("single-gpu"),
        examples.pod(
            "server", "resourceClaimTemplateName: single-gpu", resources="limits:\n  memory: 1Gi\nclaims:\n- name: gpu"
        ),
    ),
    find=_find,
    fixable="unsafe",
    see="https://kubernetes.io/docs/tasks/configure-pod-container/assign-resources/allocate-devices-dra/",
)
