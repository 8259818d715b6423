"""API servers of several releases in memory: their resources, versions and discovery."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from allotment.cluster.client import Listing, PatchKind, Resource, WatchEvent
from allotment.model.trees import Tree
from tests.unit.cluster.memory import MemoryClient, refusal

#: Resources by group version.
Served = Mapping[str, Sequence[str]]

_DRA: Final = "resource.k8s.io"
_SCHEDULING: Final = "scheduling.k8s.io"
_MAIN: Final = ("deviceclasses", "resourceclaims", "resourceclaims/status", "resourceclaimtemplates", "resourceslices")
_RULES: Final = ("devicetaintrules", "devicetaintrules/status")
_POOLS: Final = ("resourcepoolstatusrequests", "resourcepoolstatusrequests/status")
_GROUPS: Final = ("podgroups", "podgroups/status", "workloads")
_DEFAULT: Final = {f"{_DRA}/v1": _MAIN, f"{_SCHEDULING}/v1": ("priorityclasses",)}

#: What a release serves by itself. (1.36 and 1.37 as recorded; the others by their lifecycle tags.)
BY_DEFAULT: Final[Mapping[str, Served]] = {
    "1.34": _DEFAULT,
    "1.35": _DEFAULT,
    "1.36": _DEFAULT,
    "1.37": {**_DEFAULT, f"{_DRA}/v1": (*_MAIN, *_RULES)},
}
#: What a release serves with --runtime-config=api/all=true and the gates that this needs.
ALL: Final[Mapping[str, Served]] = {
    "1.34": {**_DEFAULT, f"{_DRA}/v1beta2": _MAIN, f"{_DRA}/v1beta1": _MAIN, f"{_DRA}/v1alpha3": _RULES},
    "1.35": {
        **_DEFAULT, f"{_DRA}/v1beta2": _MAIN, f"{_DRA}/v1beta1": _MAIN, f"{_DRA}/v1alpha3": _RULES,
        f"{_SCHEDULING}/v1alpha1": ("workloads",),
    },
    "1.36": {
        **_DEFAULT, f"{_DRA}/v1beta2": (*_MAIN, *_RULES), f"{_DRA}/v1beta1": _MAIN,
        f"{_DRA}/v1alpha3": (*_RULES, *_POOLS), f"{_SCHEDULING}/v1alpha2": _GROUPS,
    },
    "1.37": {
        **BY_DEFAULT["1.37"], f"{_DRA}/v1beta2": (*_MAIN, *_RULES), f"{_DRA}/v1beta1": _MAIN,
        f"{_DRA}/v1alpha3": (*_RULES, *_POOLS), f"{_SCHEDULING}/v1beta1": _GROUPS,
        f"{_SCHEDULING}/v1alpha3": (*_GROUPS, "compositepodgroups", "compositepodgroups/status"),
    },
}  # fmt: skip


class ReleaseClient(MemoryClient):
    """A server that answers 404, as Kubernetes does, for every group version that is not in ``served``."""

    def __init__(self, served: Served) -> None:
        super().__init__()
        self.served = served
        self.version = "v1.37.2"

    async def read(self, path: str, query: Sequence[tuple[str, str]] = (), accept: str = "") -> Tree:
        if path == "/api":
            return {"kind": "APIVersions", "versions": []}
        if path == "/apis":
            groups = dict.fromkeys(version.partition("/")[0] for version in self.served)
            return {"kind": "APIGroupList", "groups": [self._group(group) for group in groups]}
        if path == "/version":
            return {"gitVersion": self.version}
        wanted = path.removeprefix("/apis/")
        if "/" not in wanted and self._group(wanted)["versions"]:
            return self._group(wanted)
        resources = self.served.get(wanted)
        if resources is None:
            raise _unknown_path()
        return {"kind": "APIResourceList", "resources": [{"name": name} for name in resources]}

    def _group(self, group: str) -> Tree:
        versions = [served.rpartition("/")[2] for served in self.served if served.startswith(f"{group}/")]
        return {"kind": "APIGroup", "name": group, "versions": [{"version": version} for version in versions]}

    async def stream(self, path: str, query: Sequence[tuple[str, str]] = (), accept: str = "") -> AsyncIterator[bytes]:
        """The metrics of the feature gates."""
        yield b'kubernetes_feature_enabled{name="DRADeviceTaintRules",stage=""} 1\n'

    def _require(self, resource: Resource) -> None:
        if resource.group and resource.plural not in self.served.get(resource.api_version, ()):
            raise _unknown_path()

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Tree:
        self._require(resource)
        return await super().get(resource, name, namespace, subresource=subresource)

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0
    ) -> Listing:
        self._require(resource)
        return await super().list(resource, namespace, labels=labels, fields=fields, limit=limit)

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent]:
        self._require(resource)
        async for event in super().watch(resource, namespace, revision=revision, labels=labels, fields=fields):
            yield event

    async def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", *, kind: PatchKind = "merge",
        subresource: str = "", force: bool = False, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        self._require(resource)
        return await super().patch(resource, name, patch, namespace, kind=kind, subresource=subresource)


def _unknown_path() -> Exception:
    return refusal(404, "NotFound", "the server could not find the requested resource")
