"""The API versions that a server of a release serves: its defaults, feature gates and ``--runtime-config``.

Values and errors are those of kube-apiserver's flag: ``api/all``, ``api/ga``, ``api/beta``, ``api/alpha``,
``GROUP/VERSION`` and ``GROUP/VERSION/RESOURCE``, each with ``=true`` or ``=false``; the more specific value applies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from allotment.model.features import Features
from allotment.model.quoting import quote
from allotment.model.releases import ApiResource, release_key, release_table

#: The values for many versions, in the order in which they apply.
_SETS: Final[Mapping[str, re.Pattern[str]]] = {
    "api/all": re.compile(r".*"),
    "api/ga": re.compile(r"v\d+"),
    "api/beta": re.compile(r"v\d+beta\d+"),
    "api/alpha": re.compile(r"v\d+alpha\d+"),
}
_BOOLEANS: Final = {
    **dict.fromkeys(("", "1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
#: Versions that servers know although they have no resources.
_EMPTY: Final = frozenset(
    {
        "apps/v1beta1", "apps/v1beta2", "authentication.k8s.io/v1alpha1", "authentication.k8s.io/v1beta1",
        "authorization.k8s.io/v1beta1", "batch/v1beta1", "certificates.k8s.io/v1alpha1", "discovery.k8s.io/v1beta1",
        "events.k8s.io/v1beta1", "extensions/v1beta1", "flowcontrol.apiserver.k8s.io/v1beta1",
        "flowcontrol.apiserver.k8s.io/v1beta2", "flowcontrol.apiserver.k8s.io/v1beta3", "networking.k8s.io/v1beta1",
        "node.k8s.io/v1alpha1", "node.k8s.io/v1beta1", "policy/v1beta1", "rbac.authorization.k8s.io/v1alpha1",
        "rbac.authorization.k8s.io/v1beta1", "storage.k8s.io/v1alpha1", "storage.k8s.io/v1beta1",
    }
)  # fmt: skip
#: Resources that are served only if one of these gates is on. The gates DRADeviceTaintRules and DRAResourcePoolStatus
#: do not decide this: with them off, the objects can be written, and nothing reads them.
_GATED: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("certificates.k8s.io", "clustertrustbundles"): ("ClusterTrustBundle",),
    ("certificates.k8s.io", "podcertificaterequests"): ("PodCertificateRequest",),
    ("lifecycle.k8s.io", "evictionrequests"): ("EvictionRequestAPI",),
    ("lifecycle.k8s.io", "evictions"): ("EvictionRequestAPI",),
    # DRAWorkloadResourceClaims requires GenericWorkload, which is assumed to be on with it.
    ("scheduling.k8s.io", "podgroups"): ("GenericWorkload", "DRAWorkloadResourceClaims"),
    ("scheduling.k8s.io", "workloads"): ("GenericWorkload", "DRAWorkloadResourceClaims"),
    ("scheduling.k8s.io", "compositepodgroups"): ("CompositePodGroup",),
    ("storagemigration.k8s.io", "storageversionmigrations"): ("StorageVersionMigrator",),
}


class RuntimeConfigError(ValueError):
    """Raised for a value that kube-apiserver refuses, with its message."""


class ServedResource(NamedTuple):
    """A resource that is served. ``versions``: those served, in the server's order; ``hub``: the most stable version of
    the release, served or not. ``api``: its description in ``hub``."""

    group: str
    plural: str
    versions: tuple[str, ...]
    hub: str
    api: ApiResource
    subresources: tuple[str, ...]
    deprecated: Mapping[str, str]


def parse_runtime_config(values: Iterable[str]) -> Mapping[str, str]:
    """The keys and values of the flag; each value may have several, separated by commas.

    >>> parse_runtime_config(["api/beta=true,resource.k8s.io/v1alpha3"])
    {'api/beta': 'true', 'resource.k8s.io/v1alpha3': ''}
    """
    pairs = (part.partition("=") for value in values for part in value.split(",") if part)
    return {key.strip(): value.strip() for key, _, value in pairs}


def served_resources(features: Features, runtime_config: Iterable[str] = ()) -> list[ServedResource]:
    """The resources that a server with these features and flags serves, in the order of groups.

    Raises RuntimeConfigError for a value that it refuses.
    """
    groups = release_table(features.kube).groups
    is_enabled = _Enabled(features, parse_runtime_config(runtime_config))
    result: list[ServedResource] = []
    for group, versions in groups.items():
        for plural in dict.fromkeys(name for version in versions.values() for name in version.resources):
            if "/" in plural or not _is_gate_on(features, group, plural):
                continue
            having = [version for version, served in versions.items() if plural in served.resources]
            served = tuple(version for version in having if is_enabled(group, version, plural))
            if served:
                result.append(_served(features.kube, group, plural, served, having[0]))
    return result


def _served(release: str, group: str, plural: str, versions: tuple[str, ...], hub: str) -> ServedResource:
    resources = release_table(release).groups[group][hub].resources
    subresources = tuple(name.partition("/")[2] for name in resources if name.startswith(f"{plural}/"))
    deprecated = {version: text for version in versions if (text := _deprecation(release, group, version, plural))}
    return ServedResource(group, plural, versions, hub, resources[plural], subresources, deprecated)


def _deprecation(release: str, group: str, version: str, plural: str) -> str:
    """The Warning text of a version that is deprecated in a release, otherwise empty."""
    resource = release_table(release).groups[group][version].resources[plural]
    lifecycle = resource.lifecycle
    if lifecycle is None or not lifecycle.deprecated or release_key(lifecycle.deprecated) > release_key(release):
        return ""
    text = f"{group}/{version} {resource.kind} is deprecated in v{lifecycle.deprecated}+"
    if lifecycle.removed:
        text += f", unavailable in v{lifecycle.removed}+"
    return f"{text}; use {lifecycle.replacement}" if lifecycle.replacement else text


def _is_gate_on(features: Features, group: str, plural: str) -> bool:
    """Whether a gate of the resource is on; one that the release does not have any more is always on."""
    known = release_table(features.kube).gates
    gates = [gate for gate in _GATED.get((group, plural), ()) if gate in known]
    return not gates or any(features.gates.get(gate, known[gate].default) for gate in gates)


class _Enabled:
    """Whether a resource is enabled in a version. Raises RuntimeConfigError when created."""

    def __init__(self, features: Features, config: Mapping[str, str]) -> None:
        groups = release_table(features.kube).groups
        self._versions = {
            (group, version): served.default
            for group, versions in groups.items()
            for version, served in versions.items()
        }
        self._resources: dict[tuple[str, str, str], bool] = {}
        if config.get("api/all") == "false" and len(config) == 1:
            raise RuntimeConfigError("invalid runtime-config with only api/all=false")
        self._check_groups(config)
        for key, pattern in _SETS.items():
            if key in config:
                if config[key] not in ("true", "false"):
                    raise RuntimeConfigError(f"invalid value {key}={config[key]}")
                matching = {found: config[key] == "true" for found in self._versions if pattern.fullmatch(found[1])}
                self._versions |= matching
        for key in config.keys() - _SETS.keys():
            self._set(key, config[key])

    def __call__(self, group: str, version: str, plural: str) -> bool:
        return self._resources.get((group, version, plural), self._versions[group, version])

    def _check_groups(self, config: Mapping[str, str]) -> None:
        known = {group for group, _ in self._versions} | {name.partition("/")[0] for name in _EMPTY}
        unknown: set[str] = set()
        for key in config.keys() - _SETS.keys():
            steps = key.split("/")
            if len(steps) not in (2, 3):
                raise RuntimeConfigError(f"runtime-config invalid key {key}")
            if steps[0] not in known:
                unknown.add(f"{steps[0]}/{steps[1]}")
        if unknown:
            raise RuntimeConfigError(f"unknown api groups {','.join(sorted(unknown))}")

    def _set(self, key: str, value: str) -> None:
        group, version, *resource = key.split("/")
        if (group, version) not in self._versions and f"{group}/{version}" not in _EMPTY:
            raise RuntimeConfigError(f"group version {group}/{version} that has not been registered")
        enabled = _BOOLEANS.get(value)
        if enabled is None:
            error = f"strconv.ParseBool: parsing {quote(value)}: invalid syntax"
            raise RuntimeConfigError(f"invalid value of {key}: {value}, err: {error}")
        if not resource:
            self._versions[group, version] = enabled
        elif resource[0] != resource[0].lower():
            raise RuntimeConfigError(
                f"invalid key {key}: group/version/resource and resource is always lowercase plural, not "
                f"{quote(resource[0])}"
            )
        else:
            self._resources[group, version, resource[0]] = enabled
