"""Calls of conversion webhooks."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Final

import msgspec

from allotment.apiserver import api_errors
from allotment.apiserver.custom_resources.conversion import (
    ConversionFailed,
    ConversionNeeded,
    WebhookConversion,
    described,
)
from allotment.apiserver.kinds.kind import ServedKind
from allotment.apiserver.outbound.client import OutboundClient
from allotment.apiserver.outbound.errors import CallFailed
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree
from allotment.model.validation.errors import failure_status

_SECONDS: Final = 30.0
#: Objects in a request: the response is read whole.
_BATCH: Final = 500


async def convert(client: OutboundClient, conversion: WebhookConversion, trees: Iterable[Tree], version: str) -> None:
    """Have objects converted, so that ``conversion`` knows the results. Raises ConversionFailed."""
    missing = conversion.missing(trees, version)
    for start in range(0, len(missing), _BATCH):
        review = conversion.review(missing[start : start + _BATCH], version, str(uuid.uuid4()))
        try:
            answer = await client.post(conversion.config, msgspec.json.encode(review.body), _SECONDS)
        except CallFailed as error:
            first = review.trees[0]
            raise ConversionFailed(f"conversion webhook for {described(first)} failed: {error}", first) from None
        conversion.accept(review, answer)


async def convert_needed(client: OutboundClient, needed: ConversionNeeded) -> None:
    """Have the object converted that a write needs. Raises StatusError."""
    try:
        await convert(client, needed.conversion, (needed.tree,), needed.version)
    except ConversionFailed as error:
        if needed.is_stored:
            raise _read_failed(error, needed.conversion) from None
        raise api_errors.unclassified(str(error)) from None


async def convert_read(client: OutboundClient, kind: ServedKind, trees: Iterable[Tree], version: str) -> None:
    """Have an object converted that is read. Raises StatusError."""
    if isinstance(kind.convert, WebhookConversion):
        try:
            await convert(client, kind.convert, _completed(kind, trees), version)
        except ConversionFailed as error:
            raise _read_failed(error, kind.convert) from None


async def convert_listed(client: OutboundClient, kind: ServedKind, trees: Iterable[Tree], version: str) -> None:
    """Have the objects of a list converted. Raises StatusError: the client should retry."""
    if not isinstance(kind.convert, WebhookConversion):
        return
    try:
        await convert(client, kind.convert, _completed(kind, trees), version)
    except ConversionFailed as error:
        problem = _corrupt(error, kind.convert, "/registry")
        message = (
            "storage is (re)initializing: failed to list <unspecified>: failed to read one or more "
            f"{kind.bucket} from the storage: {problem}"
        )
        raise StatusError(failure_status(429, "TooManyRequests", message, {"retryAfterSeconds": 1})) from None


def _completed(kind: ServedKind, trees: Iterable[Tree]) -> Iterable[Tree]:
    """Stored objects as they are converted, with all defaults."""
    return trees if kind.complete is None else map(kind.complete, trees)


def _read_failed(error: ConversionFailed, conversion: WebhookConversion) -> StatusError:
    return api_errors.internal(_corrupt(error, conversion, ""))


def _corrupt(error: ConversionFailed, conversion: WebhookConversion, root: str) -> str:
    """The error of kube-apiserver's storage for an object that cannot be decoded."""
    metadata = error.tree.get("metadata") or {}
    steps = (root, conversion.group, conversion.plural, metadata.get("namespace") or "", metadata.get("name") or "")
    key = "/".join(steps[:1] + tuple(filter(None, steps[1:])))
    return (
        f"StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: object not "
        f"decodable revision={metadata.get('resourceVersion') or 0}: {error}"
    )
