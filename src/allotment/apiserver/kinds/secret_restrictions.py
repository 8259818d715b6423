"""The admission plugin ServiceAccount: the Secrets that pods may use, and what mirror pods may refer to."""

from __future__ import annotations

from typing import Final

from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.apiserver.kinds.pod_references import secret_names, service_account_names
from allotment.model.trees import Tree

_ENFORCED: Final = "kubernetes.io/enforce-mountable-secrets"
#: The values that Go parses as true.
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})


_DEPRECATED: Final = (
    f"metadata.annotations[{_ENFORCED}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted "
    "secrets"
)


def _warn(new: Tree, old: Tree | None, write: Write) -> Errors:
    annotations, before = (tree["metadata"].get("annotations") or {} for tree in (new, old or {"metadata": {}}))
    if _ENFORCED in annotations and _ENFORCED not in before:
        write.warn(_DEPRECATED)
    return ()


#: Service accounts.
RULES: Final = {
    "serviceaccounts": KindRules(validate_create=lambda new, write: _warn(new, None, write), validate_update=_warn)
}


def mirror_pod_problem(pod: Tree) -> str:
    """The reason for which a mirror pod is rejected; empty if it refers to nothing that kubelets must not grant."""
    if any(service_account_names(pod)):
        return "a mirror pod may not reference service accounts"
    if any(secret_names(pod)):
        return "a mirror pod may not reference secrets"
    for volume in pod["spec"].get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken") is not None:
                return "a mirror pod may not use ServiceAccountToken volume projections"
    return ""


def mountable_secrets_problem(spec: Tree, account: Tree) -> str:
    """The first Secret of a pod that its service account does not list, if the account enforces its list."""
    if (account["metadata"].get("annotations") or {}).get(_ENFORCED) not in _TRUE:
        return ""
    name = account["metadata"]["name"]
    allowed = {item.get("name") for item in account.get("secrets") or ()}
    unlisted = f"is not allowed because service account {name} does not reference that secret"
    for volume in spec.get("volumes") or ():
        secret = volume.get("secret")
        if secret is not None and secret.get("secretName") not in allowed:
            return f'volume with secret.secretName="{secret.get("secretName")}" {unlisted}'
    for part, noun in (("initContainers", "init container"), ("containers", "container")):
        for container in spec.get(part) or ():
            subject = f"{noun} {container.get('name')}"
            for variable in container.get("env") or ():
                reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
                if reference is not None and reference.get("name") not in allowed:
                    secret_name = f'secret.secretName="{reference.get("name")}"'
                    return f"{subject} with envVar {variable.get('name')} referencing {secret_name} {unlisted}"
            for source in container.get("envFrom") or ():
                reference = source.get("secretRef")
                if reference is not None and reference.get("name") not in allowed:
                    return f'{subject} with envFrom referencing secret.secretName="{reference.get("name")}" {unlisted}'
    pull_secrets = {item.get("name") for item in account.get("imagePullSecrets") or ()}
    for index, reference in enumerate(spec.get("imagePullSecrets") or ()):
        if reference.get("name") not in pull_secrets:
            subject = f'imagePullSecrets[{index}].name="{reference.get("name")}"'
            return f"{subject} is not allowed because service account {name} does not reference that imagePullSecret"
    return ""
