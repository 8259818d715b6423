"""The context (client, features) in which Allotment's components run on an external cluster."""

from __future__ import annotations

from argparse import Namespace
from random import Random

from allotment.api.objects.releases import features
from allotment.cluster.caches import Caches
from allotment.cluster.clock import Clock
from allotment.cluster.inspection.release import release_of
from allotment.cluster.program import ProgramContext
from allotment.cluster.recorder import Events
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.version_negotiation import NegotiatingClient
from allotment.model.features import Features


def context_of(client: HttpClient) -> ProgramContext:
    """Return the context of components: all use this client, and resource.k8s.io/v1."""
    clock, random = Clock(), Random()
    speaking = NegotiatingClient(client)
    caches = Caches(speaking, clock=clock, random=random)
    return ProgramContext(lambda name, manager="": speaking, caches, clock, Events(client, clock=clock), random)


async def features_of(arguments: Namespace, client: HttpClient) -> Features:
    """Return the features of the given release, else of the cluster's; a newer one counts as the newest known."""
    version = arguments.kube_version
    if version is None:
        version = release_of(await client.read("/version"))
    return features(version, arguments.feature_gates)
