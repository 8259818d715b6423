"""Programs of ours on a cluster that is elsewhere: what each is given, and for which release."""

from __future__ import annotations

from argparse import Namespace
from random import Random

from allotment.cli.inputs.release import features
from allotment.cluster.caches import Caches
from allotment.cluster.clock import Clock
from allotment.cluster.inspection.release import release_of
from allotment.cluster.program import Context
from allotment.cluster.recorder import Events
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.version_negotiation import Negotiated
from allotment.model.features import Features


def context_of(client: HttpClient) -> Context:
    """What programs are given: whoever they are, they speak as this client, and v1 of devices."""
    clock, random = Clock(), Random()
    speaking = Negotiated(client)
    caches = Caches(speaking, clock=clock, random=random)
    return Context(lambda name, manager="": speaking, caches, clock, Events(client, clock=clock), random)


async def features_of(arguments: Namespace, client: HttpClient) -> Features:
    """Of the release that is named, else of the cluster's; newer ones are taken as the newest that is known."""
    version = arguments.kube_version
    if version is None:
        version = release_of(await client.read("/version"))
    return features(version, arguments.feature_gates)
