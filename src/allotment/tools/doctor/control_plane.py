"""Kubernetes' own programs of a cluster whose control plane runs as pods (kubeadm and others), from these pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from allotment.model.features import Features, modelled_release, with_stages
from allotment.tools.doctor.objects import Pod
from allotment.vocabulary.kubernetes_programs import feature_gates, program_of

_NAMESPACE: Final = "kube-system"


class KubeProgram(NamedTuple):
    """A program and its pod. ``gates``: the feature gates of its command line; None if that is not in the pod."""

    name: str
    version: str
    pod: str
    gates: dict[str, bool] | None

    def enabled(self, gate: str) -> bool:
        """Whether a gate is on in it: by its command line, or by the default of its release."""
        kube = modelled_release(self.version)
        return with_stages(self.gates or {}, kube).get(gate, Features(kube).enabled(gate))


def kube_programs(pods: Iterable[Pod]) -> Iterator[KubeProgram]:
    """The programs with a version in the tag of their image."""
    for pod in pods:
        if pod.metadata.namespace != _NAMESPACE or pod.metadata.deletion_timestamp is not None:
            continue
        for container in pod.spec.containers:
            if found := program_of(container.image):
                words = (*container.command, *container.args)
                gates = feature_gates(words) if words else None
                yield KubeProgram(found.name, found.version, f"{_NAMESPACE}/{pod.metadata.name}", gates)
