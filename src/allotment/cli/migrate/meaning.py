"""What is migrated to, by the options: release and gates, the cluster, the way."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterable
from typing import Final

from allotment.cli.inputs.objects import read_inputs
from allotment.cli.inputs.release import features
from allotment.cli.inputs.unread_resources import OF_DEVICES, must_know
from allotment.cli.output.errors import Mistake
from allotment.model.core import Node
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.model.resource import DeviceClass, ResourceSlice
from allotment.tools.migrate.target import OLDEST, Target

_RELEASE: Final = "1.36"
_VERSION: Final = re.compile(r"v?1\.([0-9]+)(?:\..*)?")


def target_of(arguments: Namespace) -> Target:
    """Raises Mistake and BadInput for what cannot be meant."""
    version = arguments.kube_version or _RELEASE
    found = _VERSION.fullmatch(version)
    old = found is not None and int(found[1]) < int(OLDEST.partition(".")[2])
    if old and (arguments.fleet or arguments.cluster or arguments.context or arguments.kubeconfig):
        raise Mistake(
            f"--kube-version {version}: nothing can be tried on a release before {OLDEST}",
            "leave --fleet and --cluster out, or give the release that you are going to",
        )
    if old and found is not None:
        return Target(kube=f"1.{int(found[1])}", features=None, way=arguments.to, shares=arguments.shares)
    known, values = _cluster(arguments, version)
    return Target(
        kube=known.kube,
        features=known,
        way=arguments.to,
        known=values is not None,
        nodes=tuple(value for value in values or () if isinstance(value, Node)),
        slices=tuple(value for value in values or () if isinstance(value, ResourceSlice)),
        classes=tuple(value for value in values or () if isinstance(value, DeviceClass)),
        objects=tuple(values or ()),
        fleet=tuple(arguments.fleet or ()),
        shares=arguments.shares,
        same=f"resource.kubernetes.io/{arguments.same}" if arguments.same else "",
    )


def _cluster(arguments: Namespace, version: str) -> tuple[Features, Iterable[Object] | None]:
    """The release with its gates, and the objects of the cluster, if one was given."""
    if arguments.context or arguments.kubeconfig:
        if arguments.fleet or arguments.cluster:
            raise Mistake("--context: a cluster that runs, beside one of files", "give one of them")
        from allotment.cli.live.cluster_state import read_live
        from allotment.cluster.inspection.snapshot import DEVICES, PODS

        live = read_live(arguments, (*DEVICES, *PODS))
        must_know(live.values, *OF_DEVICES)
        return live.features, live.values
    if not (arguments.fleet or arguments.cluster):
        return features(version, arguments.feature_gates), None
    options = {"cluster": [arguments.cluster or []], "fleet": [arguments.fleet] if arguments.fleet else [], "files": []}
    inputs = read_inputs(Namespace(**{**vars(arguments), **options}))
    must_know(inputs.cluster, *OF_DEVICES)
    return inputs.features, inputs.cluster
