"""M409: admin access is requested in a namespace that does not allow it."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.core import Namespace
from allotment.model.editing.edits import Edit, RenameKey, SetValue
from allotment.model.loading import Document
from allotment.model.validation.admin_access import LABEL, is_admin_namespace
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import at, mapping

#: The label's name while the feature was alpha.
LEGACY = "resource.k8s.io/admin-access"


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for claim in bundle.claims:
        for request in claim.requests:
            if not request.admin_access:
                continue
            name = claim.key.namespace
            namespace = bundle.namespaces.get(name)
            if namespace is not None and is_admin_namespace(namespace.metadata.labels):
                continue
            path = (*request.body, "adminAccess")
            if namespace is None:
                message = f"admin access is rejected unless namespace {name} has label {LABEL}: true"
                yield RuleMatch(claim.document, path, message, help=_kubectl_command(name), level="note")
                continue
            labels = namespace.metadata.labels
            reason = (
                f"it has label {LEGACY}, which is no longer recognized"
                if LEGACY in labels
                else _label_problem(labels.get(LABEL))
            )
            message = (
                f"namespace {name} does not allow admin access ({reason}): the API server rejects the {claim.kind}"
            )
            yield RuleMatch(claim.document, path, message, help=_help(bundle, name), fix=_fix(bundle, name))


def _label_problem(value: str | None) -> str:
    return f"it lacks label {LABEL}" if value is None else f'label {LABEL} is "{value}", not "true"'


def _help(bundle: Bundle, name: str) -> str:
    return "" if _namespace_document(bundle, name) else _kubectl_command(name)


def _kubectl_command(name: str) -> str:
    command = f"kubectl label namespace {name} {LABEL}=true"
    return f"an administrator can label namespace {name} to allow admin access: {command}"


def _namespace_document(bundle: Bundle, name: str) -> Document | None:
    return next(
        (d for d, m in bundle.manifests.items() if isinstance(m.value, Namespace) and m.value.metadata.name == name),
        None,
    )


def _fix(bundle: Bundle, name: str) -> Fix | None:
    document = _namespace_document(bundle, name)
    if document is None:
        return None
    labels = at(document.tree, ("metadata", "labels"))
    path = ("metadata", "labels", LABEL)
    edit: Edit
    if not isinstance(labels, dict):
        edit = SetValue(("metadata", "labels"), {LABEL: "true"})
    elif mapping(labels).get(LEGACY) == "true" and LABEL not in labels:
        edit = RenameKey(("metadata", "labels", LEGACY), LABEL)
    else:
        edit = SetValue(path, "true")
    return Fix(f"label namespace {name} to allow admin access", ((document, edit),), safe=False)


_EXAMPLE = """\
apiVersion: v1
kind: Namespace
metadata:
  name: monitoring
  labels:
    team: platform
{label}---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: all-gpus
  namespace: monitoring
spec:
  spec:
    devices:
      requests:
      - name: gpus
        exactly:
          deviceClassName: gpu.nvidia.com
          allocationMode: All
          adminAccess: true
"""

RULE = Rule(
    code="M409",
    name="admin-access-label",
    family="meaning",
    level="error",
    summary="a claim requests admin access in a namespace without the required label",
    why=(
        "Admin access allows a pod to use devices that are allocated to others. The API server accepts such a claim "
        'or template only in a namespace with the label resource.kubernetes.io/admin-access: "true", spelled exactly '
        "like this, including the case (KEP-5018). While the feature was alpha, the label was "
        "resource.k8s.io/admin-access, which is no longer recognized. The finding is only a note if the Namespace is "
        "neither in the files nor in the cluster."
    ),
    bad=_EXAMPLE.format(label=""),
    good=_EXAMPLE.format(label=f'    {LABEL}: "true"\n'),
    find=_find,
    fixable="unsafe",
    see="https://kep.k8s.io/5018",
)
