"""Projected volumes have the certificates of the ClusterTrustBundles that they select."""

from __future__ import annotations

import asyncio
import base64

import pytest

from allotment.cluster.resources import CLUSTER_TRUST_BUNDLES
from allotment.model.features import Features
from allotment.model.trees import Tree
from allotment.node.trust_bundles import NoTrustBundle, trust_anchors
from tests.unit.apiserver.served import Served

SIGNER = "ex.com/s"


def pem(text: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(text.encode()).decode()}\n-----END CERTIFICATE-----\n"


def bundle(name: str, content: str, signer: str = SIGNER, **labels: str) -> Tree:
    named = f"{signer.replace('/', ':')}:{name}"
    return {"metadata": {"name": named, "labels": labels}, "spec": {"signerName": signer, "trustBundle": content}}


BUNDLES = [
    bundle("one", f"# comment\n{pem('a')}{pem('b')}", live="yes"),
    bundle("two", pem("b") + pem("c"), live="yes"),
    bundle("three", pem("d"), live="no"),
    bundle("other", pem("e"), signer="ex.com/t", live="yes"),
]


def anchors(**projection: object) -> str:
    async def scenario() -> str:
        client = (await Served(features=Features("1.37")).started()).client()
        for tree in BUNDLES:
            await client.create(CLUSTER_TRUST_BUNDLES, tree)
        return await trust_anchors(client, dict(projection))

    return asyncio.run(scenario())


def test_a_named_bundle_without_its_comments() -> None:
    assert anchors(name="ex.com:s:one") == pem("a") + pem("b")


def test_the_bundles_of_a_signer_that_a_selector_matches_each_certificate_once() -> None:
    live = {"matchLabels": {"live": "yes"}}
    assert anchors(signerName=SIGNER, labelSelector=live) == pem("a") + pem("b") + pem("c")
    assert anchors(signerName=SIGNER, labelSelector={}).count("BEGIN") == 4


@pytest.mark.parametrize(
    ("projection", "message"),
    [
        ({"name": "none"}, 'while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "none" not found'),
        ({"signerName": SIGNER}, "combination of signerName and labelSelector matched zero ClusterTrustBundles"),
    ],
)
def test_a_missing_bundle_is_an_error_unless_it_is_optional(projection: dict[str, str], message: str) -> None:
    with pytest.raises(NoTrustBundle) as caught:
        anchors(**projection)
    assert str(caught.value) == message
    assert anchors(**projection, optional=True) == ""
