"""What a control plane of each release needs so that it serves and obeys DeviceTaintRules and PodGroups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from allotment.model.features import Features
from tests.vectors.apiserver.recorded_servers import RecordedServer


class ServerFlags(NamedTuple):
    """Feature gates and ``--runtime-config`` of kube-apiserver; the other programs get the same gates."""

    gates: Mapping[str, bool] = {}
    runtime_config: str = ""


class KubeRelease(NamedTuple):
    """The flags for each kind, and the version in which it is then served; no flags if that is the default."""

    name: str
    rule_flags: ServerFlags
    rule_version: str
    group_flags: ServerFlags
    group_version: str

    @property
    def flags(self) -> ServerFlags:
        """The flags for both."""
        configs = filter(None, (self.rule_flags.runtime_config, self.group_flags.runtime_config))
        return ServerFlags({**self.rule_flags.gates, **self.group_flags.gates}, ",".join(configs))

    @property
    def features(self) -> Features:
        """The same as features of Allotment's programs."""
        return Features(self.name, self.flags.gates)


def changed_gates(server: RecordedServer) -> dict[str, bool]:
    """The gates of a recorded server that are not the defaults of its release; others need no flag."""
    default = Features(server.release)
    return {gate: on for gate, on in server.gates.items() if on != default.enabled(gate)}


_GROUPS: Final = {"DRAWorkloadResourceClaims": True, "GenericWorkload": True}
_COMPOSITE_GROUPS: Final = {"TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True}
KUBE_RELEASES: Final[Mapping[str, KubeRelease]] = {
    "1.36": KubeRelease(
        "1.36",
        ServerFlags({"DRADeviceTaintRules": True}, "resource.k8s.io/v1beta2=true"),
        "v1beta2",
        ServerFlags(_GROUPS, "scheduling.k8s.io/v1alpha2=true"),
        "v1alpha2",
    ),
    "1.37": KubeRelease(
        "1.37",
        ServerFlags(),
        "v1",
        ServerFlags(
            {**_GROUPS, **_COMPOSITE_GROUPS}, "scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"
        ),
        "v1beta1",
    ),
}  # fmt: skip
