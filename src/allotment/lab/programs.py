"""What runs in a lab beside the API server: each program is a line.

They meet in the API's objects only: a lab without one of them is a cluster in which nobody does its work.
"""

from __future__ import annotations

from collections.abc import Mapping

from allotment.cluster.program import Program
from allotment.control.daemon_sets import daemon_sets
from allotment.control.deployments import deployments
from allotment.control.device_taints import device_taints
from allotment.control.garbage import garbage
from allotment.control.namespaces import namespaces
from allotment.control.replica_sets import replica_sets, replication_controllers
from allotment.control.resource_claims import resource_claims
from allotment.control.stateful_sets import stateful_sets
from allotment.model.features import Features
from allotment.node.kubelet import Kubelets
from allotment.scheduler.program import Options, scheduler


def programs(kubelets: Kubelets, features: Features) -> Mapping[str, Program]:
    """Every program by name."""
    return {
        "daemon-sets": daemon_sets,
        "deployments": deployments,
        "device-taints": device_taints,
        "garbage": garbage,
        "kubelets": kubelets.run,
        "namespaces": namespaces,
        "replica-sets": replica_sets,
        "replication-controllers": replication_controllers,
        "resource-claims": resource_claims,
        "scheduler": scheduler(Options(features)),
        "stateful-sets": stateful_sets,
    }
