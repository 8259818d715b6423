"""The objects that the controller creates for a ComputeDomain: claim templates and a DaemonSet."""

from __future__ import annotations

from typing import Final

from allotment.cluster.client import Resource
from allotment.cluster.resources import CLAIM_TEMPLATES, DAEMON_SETS
from allotment.drivers.nvidia.compute_domain.names import (
    CHANNEL_CLASS,
    COMPUTE_DOMAINS,
    DAEMON_CLASS,
    LABEL,
    objects_name,
)
from allotment.fleet.nvidia.compute_domain import COMPUTE_DOMAIN_DRIVER
from allotment.model.trees import Tree

#: A daemon of a simulated fabric only has to run.
IMAGE: Final = "allotment.dev/imex-daemon"


def workload_template(domain: Tree) -> Tree:
    """The claim template that the domain's spec names; it is deleted with the domain."""
    metadata, channel = domain["metadata"], domain["spec"]["channel"]
    template = _template(
        CHANNEL_CLASS, "channel", metadata["uid"], "ComputeDomainChannelConfig",
        allocationMode=channel.get("allocationMode") or "Single",
    )  # fmt: skip
    owner = {
        "apiVersion": COMPUTE_DOMAINS.api_version,
        "kind": COMPUTE_DOMAINS.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    name = channel["resourceClaimTemplate"]["name"]
    template["metadata"] |= {"name": name, "namespace": metadata["namespace"], "ownerReferences": [owner]}
    return template


def daemon_template(domain: Tree, namespace: str) -> Tree:
    """The claim template of the domain's daemons."""
    uid = domain["metadata"]["uid"]
    template = _template(DAEMON_CLASS, "daemon", uid, "ComputeDomainDaemonConfig")
    template["metadata"] |= {"name": objects_name(uid), "namespace": namespace}
    return template


def _template(device_class: str, request: str, uid: str, kind: str, **config: str) -> Tree:
    parameters = {"apiVersion": COMPUTE_DOMAINS.api_version, "kind": kind, "domainID": uid, **config}
    devices = {
        "requests": [{"name": request, "exactly": {"deviceClassName": device_class}}],
        "config": [{"requests": [request], "opaque": {"driver": COMPUTE_DOMAIN_DRIVER, "parameters": parameters}}],
    }
    return {**_head(CLAIM_TEMPLATES, uid), "spec": {"metadata": {"labels": {LABEL: uid}}, "spec": {"devices": devices}}}


def daemon_set(domain: Tree, namespace: str) -> Tree:
    """The domain's DaemonSet, which runs on the nodes that a driver has labeled."""
    uid = domain["metadata"]["uid"]
    name = objects_name(uid)
    tree = _head(DAEMON_SETS, uid)
    tree["metadata"] |= {"name": name, "namespace": namespace}
    tree["spec"] = {
        "selector": {"matchLabels": {LABEL: uid}},
        "template": {
            "metadata": {"labels": {LABEL: uid}},
            "spec": {
                "nodeSelector": {LABEL: uid},
                # The daemon runs wherever the workload runs, including tainted nodes.
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "daemon", "image": IMAGE, "resources": {"claims": [{"name": "daemon"}]}}],
                "resourceClaims": [{"name": "daemon", "resourceClaimTemplateName": name}],
            },
        },
    }
    return tree


def _head(resource: Resource, uid: str) -> Tree:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"labels": {LABEL: uid}}}
