"""Builds bundles from YAML texts, for tests of rules."""

from __future__ import annotations

from collections.abc import Mapping

from allotment.fleet import cluster_of, parse_fleet
from allotment.model.decoding import decode_all
from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.model.meta import Object
from allotment.tools.check.bundle import Bundle, CheckSettings, TargetCluster
from allotment.tools.check.rule import Rule


def bundle_of(
    files: str | Mapping[str, str],
    *,
    kube: str = "1.36",
    fleet: str = "",
    cluster: str = "",
    gates: Mapping[str, bool] | None = None,
) -> Bundle:
    """A bundle of one text, or of several files by name, with a cluster of these machines and objects."""
    texts = {"file.yaml": files} if isinstance(files, str) else files
    loaded = [load_text(text, name) for name, text in texts.items()]
    return Bundle(
        [document for result in loaded for document in result.documents],
        CheckSettings(Features(kube=kube, gates=gates or {})),
        world_of(kube=kube, fleet=fleet, cluster=cluster),
        [problem for result in loaded for problem in result.problems],
    )


def example_bundle(rule: Rule, text: str) -> Bundle:
    """The bundle of a rule's example."""
    return bundle_of(text, kube=rule.kube, fleet=rule.fleet, cluster=rule.cluster)


def world_of(*, kube: str = "1.36", fleet: str = "", cluster: str = "") -> TargetCluster | None:
    """The cluster of machines (``--fleet`` syntax), of objects (YAML), or of both; None for neither."""
    if not fleet and not cluster:
        return None
    objects: list[Object] = []
    if fleet:
        fleet_cluster = cluster_of(parse_fleet([fleet]), kube)
        objects += [*fleet_cluster.nodes, *fleet_cluster.slices, *fleet_cluster.classes]
    decoded = decode_all(load_text(cluster, "cluster.yaml").documents, strict=False)
    assert not decoded.problems
    objects += [manifest.value for manifest in decoded.manifests if isinstance(manifest.value, Object)]
    return TargetCluster(tuple(objects), fleet_only=not cluster)
