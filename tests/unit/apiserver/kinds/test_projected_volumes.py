"""Projected volumes are refused for the reasons of kube-apiserver, compared with 1.36 and 1.37."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from allotment.model.features import Features
from allotment.model.trees import Tree
from tests.unit.apiserver.served import PODS, Served, pod

VOLUME = "spec.volumes[0].projected"
SOURCE = f"{VOLUME}.sources[0]"
CERTIFICATE: Tree = {"signerName": "ex.com/s", "keyType": "ED25519", "credentialBundlePath": "b.pem"}
TOKEN: Tree = {"path": "token", "expirationSeconds": 3600}


def certificate(**fields: Any) -> Tree:
    return {"podCertificate": {**CERTIFICATE, **fields}}


def bundle(**fields: Any) -> Tree:
    return {"clusterTrustBundle": {"path": "t.pem", **fields}}


def secret(path: str) -> Tree:
    return {"secret": {"name": "s", "items": [{"key": "k", "path": path}]}}


def token(**fields: Any) -> Tree:
    return {"serviceAccountToken": {**TOKEN, **fields}}


def causes(*sources: Tree, release: str = "1.37") -> list[str]:
    """The causes of the refusal of a pod with a volume of these sources; empty if it is created."""

    async def scenario() -> list[str]:
        served = await Served(features=Features(release), runtime_config=()).started()
        volumes = [{"name": "v", "projected": {"sources": sources}}]
        body = (await served.post(PODS, pod("p", volumes=volumes))).body
        return [f"{cause['field']}: {cause['message']}" for cause in (body.get("details") or {}).get("causes", ())]

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("source", "field", "message"),
    [
        (certificate(maxExpirationSeconds=3599), "podCertificate.maxExpirationSeconds",
         "Invalid value: 3599: if provided, maxExpirationSeconds must be >= 3600"),
        (certificate(maxExpirationSeconds=91 * 86400 + 1), "podCertificate.maxExpirationSeconds",
         "Invalid value: 7862401: if provided, maxExpirationSeconds must be <= 7862400"),
        (certificate(maxExpirationSeconds=86401, signerName="kubernetes.io/x"), "podCertificate.maxExpirationSeconds",
         "Invalid value: 86401: if provided, maxExpirationSeconds must be <= 86400"),
        (certificate(credentialBundlePath=""), "podCertificate",
         "Required value: specify at least one of credentialBundlePath, keyPath, and certificateChainPath"),
        (bundle(), "clusterTrustBundle", "Required value: either name or signerName must be specified"),
        (bundle(name="a", signerName="ex.com/s"), "clusterTrustBundle",
         ('Invalid value: {"Name":"a","SignerName":"ex.com/s","LabelSelector":null,"Optional":null,"Path":"t.pem",'
         '"User":null}: only one of name and signerName may be used')),
        (token(expirationSeconds=1), "serviceAccountToken.expirationSeconds",
         "Invalid value: 1: may not specify a duration less than 10 minutes"),
    ],
)  # fmt: skip
def test_a_source_is_refused(source: Tree, field: str, message: str) -> None:
    assert causes(source) == [f"{SOURCE}.{field}: {message}"]


def test_files_of_different_sources_do_not_collide() -> None:
    assert causes(secret("a"), bundle(name="n", path="a")) == [
        f'{VOLUME}: Invalid value: "a": conflicting duplicate paths'
    ]
    assert causes(secret("a"), token(path="a")) == []


def test_a_source_has_one_kind() -> None:
    assert causes({**secret("a"), **token()}) == [
        f"{SOURCE}: Forbidden: may not specify more than 1 volume type per source"
    ]


def test_the_error_of_a_token_has_the_path_of_the_volume() -> None:
    assert causes(token(path="..x")) == [f"{VOLUME}.path: Invalid value: \"..x\": must not start with '..'"]


def test_a_release_without_the_feature_drops_the_source() -> None:
    assert causes(certificate(signerName=""), bundle(), release="1.36") == []
