"""The PersistentVolumeClaims of pods: those that they name, and those that are created for their ephemeral volumes."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.trees import Tree


def claim_names(pod: Tree) -> Iterator[tuple[str, bool]]:
    """The names of the claims of a pod's volumes, and whether each is created for an ephemeral volume of this pod."""
    for volume in pod["spec"].get("volumes") or ():
        if (source := volume.get("persistentVolumeClaim")) is not None:
            yield source["claimName"], False
        elif volume.get("ephemeral") is not None:
            yield ephemeral_claim_name(pod, volume), True


def claim_keys(pod: Tree) -> Iterator[tuple[str, str]]:
    """The namespace and name of each claim of a pod's volumes."""
    for name, _ in claim_names(pod):
        yield pod["metadata"].get("namespace", ""), name


def ephemeral_claim_name(pod: Tree, volume: Tree) -> str:
    """The name of the claim for an ephemeral volume of a pod."""
    return f"{pod['metadata']['name']}-{volume['name']}"


def is_for(claim: Tree, pod: Tree) -> bool:
    """Whether a claim was created for an ephemeral volume of a pod."""
    return any(
        reference.get("controller") and reference.get("uid") == pod["metadata"].get("uid")
        for reference in claim["metadata"].get("ownerReferences") or ()
    )


def not_owned_message(claim: Tree, pod: Tree) -> str:
    """Kubernetes' message for a claim with the name of an ephemeral volume's claim that belongs to another pod."""
    about, user = claim["metadata"], pod["metadata"]
    names = (
        f"PVC {about.get('namespace')}/{about['name']} was not created for pod {user.get('namespace')}/{user['name']}"
    )
    return f"{names} (pod is not owner)"
