"""A server's Kubernetes release and feature gates, from its version and the resources that it serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from allotment.cluster.client import Reader
from allotment.model.features import Features, gates_of_resources, modelled_release

#: The groups with resources that reveal gates.
_GATED_GROUPS: Final = ("resource.k8s.io", "scheduling.k8s.io")


class FeatureOverrides(NamedTuple):
    """User overrides of the detected features: the release (empty: as detected) and feature gates."""

    release: str = ""
    gates: Mapping[str, bool] = {}


def release_of(version: Mapping[str, Any]) -> str:
    """The modeled release for a version: unknown newer ones map to the newest, older ones to the oldest.

    >>> release_of({"major": "1", "minor": "36+"}), release_of({"major": "1", "minor": "99"})
    ('1.36', '1.37')
    """
    return modelled_release(f"{version.get('major', '')}.{version.get('minor', '')}")


async def features_of(client: Reader, overrides: FeatureOverrides) -> Features:
    """A server's features. Raises StatusError and Unreachable."""
    release = overrides.release or release_of(await client.read("/version"))
    served = {group["name"] for group in (await client.read("/apis")).get("groups") or ()}
    kinds = {plural for group in _GATED_GROUPS if group in served for plural in await _kinds(client, group)}
    return Features(kube=release, gates={**gates_of_resources(kinds), **overrides.gates})


async def _kinds(client: Reader, name: str) -> set[str]:
    """The plurals of a group in all versions."""
    group = await client.read(f"/apis/{name}")
    found: set[str] = set()
    for version in group.get("versions") or ():
        listed = await client.read(f"/apis/{version['groupVersion']}")
        found |= {resource["name"] for resource in listed.get("resources") or ()}
    return found
