"""The certificates of ClusterTrustBundles in projected volumes (KEP-3257)."""

from __future__ import annotations

import base64
import binascii
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CLUSTER_TRUST_BUNDLES
from allotment.model.trees import Tree

_BLOCK: Final = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_PEM_COLUMNS: Final = 64


class NoTrustBundle(Exception):
    """Raised if a required bundle does not exist; the text is the kubelet's."""


async def trust_anchors(client: Client, projection: Tree) -> str:
    """Return the certificates of the bundles that a projection selects, each once, as PEM.

    Raises NoTrustBundle; StatusError and Unreachable if they cannot be read.
    """
    if (name := projection.get("name")) is not None:
        try:
            bundles = [await client.get(CLUSTER_TRUST_BUNDLES, name)]
        except StatusError as error:
            if error.code != 404:
                raise
            bundles = []
        problem = f'while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "{name}" not found'
    else:
        bundles = await _of_signer(client, projection.get("signerName") or "", projection.get("labelSelector"))
        problem = "combination of signerName and labelSelector matched zero ClusterTrustBundles"
    if not bundles and not projection.get("optional"):
        raise NoTrustBundle(problem)
    return "".join(_normalized(bundle["spec"].get("trustBundle") or "" for bundle in bundles))


async def _of_signer(client: Client, signer: str, selector: Tree | None) -> list[Tree]:
    if selector is None:  # it selects nothing, and an empty one everything
        return []
    listing = await client.list(CLUSTER_TRUST_BUNDLES, labels=",".join(_requirements(selector)))
    return [tree for tree in listing.items if tree["spec"].get("signerName") == signer]


def _requirements(selector: Tree) -> Iterator[str]:
    """The requirements of a label selector in the syntax of requests.

    >>> list(_requirements({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}))
    ['a=b', 'c']
    """
    for key, value in (selector.get("matchLabels") or {}).items():
        yield f"{key}={value}"
    for requirement in selector.get("matchExpressions") or ():
        key, operator = requirement["key"], requirement["operator"]
        if operator in ("In", "NotIn"):
            yield f"{key} {operator.lower()} ({','.join(requirement.get('values') or ())})"
        else:
            yield key if operator == "Exists" else f"!{key}"


def _normalized(bundles: Iterable[str]) -> Iterator[str]:
    """The certificates of PEM texts, each once, without comments and headers."""
    seen: set[bytes] = set()
    for text in bundles:
        for block in _BLOCK.findall(text):
            try:
                content = base64.b64decode("".join(block.split()), validate=True)
            except binascii.Error:
                continue
            if content not in seen:
                seen.add(content)
                lines = textwrap.wrap(base64.b64encode(content).decode(), _PEM_COLUMNS)
                yield "\n".join(["-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""])
