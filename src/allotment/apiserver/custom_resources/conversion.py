"""Conversion of custom resources between versions: by changing the apiVersion, or by a webhook.

Reads and writes are synchronous, and a webhook takes time. So its results are kept, by the content of the object:
what is not known yet raises :class:`ConversionNeeded`; the caller has it converted, and repeats what it did.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from allotment.apiserver.custom_resources.defaulting import apply_defaults
from allotment.apiserver.kinds.webhook_clients import REVIEW_VERSIONS
from allotment.model.quoting import quote
from allotment.model.trees import Tree

#: Kept results. More objects than these are converted again with every list.
_MAX_RESULTS: Final = 50_000
#: Metadata that a webhook can read or change; other fields do not affect its result.
_CONVERTED_METADATA: Final = ("name", "namespace", "labels", "annotations")
_CHANGED_METADATA: Final = ("labels", "annotations")


class ConversionNeeded(Exception):
    """Raised for an object that a webhook has not converted yet. ``is_stored``: it was read from the store."""

    def __init__(self, conversion: WebhookConversion, tree: Tree, version: str, is_stored: bool) -> None:
        super().__init__(f"{tree.get('kind')} must be converted to {version}")
        self.conversion = conversion
        self.tree = tree
        self.version = version
        self.is_stored = is_stored


class ConversionFailed(Exception):
    """Raised if a webhook does not convert an object; ``tree``: the first of the objects of the request."""

    def __init__(self, message: str, tree: Tree) -> None:
        super().__init__(message)
        self.tree = tree


class Review(NamedTuple):
    """A request to a webhook for the conversion of objects to a version."""

    trees: tuple[Tree, ...]
    version: str
    body: Tree


def rename(tree: Tree, version: str, group: str, schemas: Mapping[str, Tree]) -> Tree:
    """Convert by changing the apiVersion, the strategy None; defaults are those of the version."""
    wanted = f"{group}/{version}"
    if tree.get("apiVersion") == wanted:
        return tree
    renamed = {**tree, "apiVersion": wanted}
    return apply_defaults(renamed, schemas[version]) if version in schemas else renamed


class WebhookConversion:
    """The conversion of the objects of a definition by its webhook. ``schemas``: by version, for defaults."""

    def __init__(self, definition: Tree, schemas: Mapping[str, Tree]) -> None:
        spec = definition["spec"]
        webhook = (spec.get("conversion") or {}).get("webhook") or {}
        self.config: Tree = webhook.get("clientConfig") or {}
        self.group = str(spec["group"])
        self.plural = str(spec["names"]["plural"])
        self._review_version = next(
            (v for v in webhook.get("conversionReviewVersions") or () if v in REVIEW_VERSIONS), ""
        )
        self._schemas = schemas
        self._results: dict[tuple[bytes, str], Tree] = {}

    def __call__(self, tree: Tree, version: str, *, is_stored: bool) -> Tree:
        """The object in a version. Raises ConversionNeeded."""
        wanted = f"{self.group}/{version}"
        if tree.get("apiVersion") == wanted:
            return tree
        if not tree.keys() - {"apiVersion", "kind"}:
            return {**tree, "apiVersion": wanted}
        key = _key(tree), version
        found = self._results.pop(key, None)
        if found is None:
            raise ConversionNeeded(self, tree, version, is_stored)
        self._results[key] = found  # the last one is the last to be dropped
        metadata = {name: value for name, value in tree["metadata"].items() if name not in _CHANGED_METADATA}
        metadata |= found["metadata"]
        return {**found, "metadata": metadata}

    def missing(self, trees: Iterable[Tree], version: str) -> list[Tree]:
        """The objects that have another version, and are not converted yet."""
        wanted = f"{self.group}/{version}"
        return [
            tree
            for tree in trees
            if tree.get("apiVersion") != wanted and tree.get("metadata") and (_key(tree), version) not in self._results
        ]

    def review(self, trees: Sequence[Tree], version: str, uid: str) -> Review:
        """The request for the conversion of some objects. Raises ConversionFailed."""
        if not self._review_version:
            raise ConversionFailed("no supported conversion review versions", trees[0])
        request = {"uid": uid, "desiredAPIVersion": f"{self.group}/{version}", "objects": [*trees]}
        body: Tree = {
            "kind": "ConversionReview",
            "apiVersion": f"apiextensions.k8s.io/{self._review_version}",
            "request": request,
            "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
        }
        return Review(tuple(trees), version, body)

    def accept(self, review: Review, answer: Any) -> None:
        """Keep the results of a review. Raises ConversionFailed if the response is not valid."""
        first = review.trees[0]
        subject = f"conversion webhook for {described(first)}"
        response = _response(review, answer, self._review_version, subject)
        converted = response.get("convertedObjects") or ()
        if len(converted) != len(review.trees):
            counts = f"returned {len(converted)} objects, expected {len(review.trees)}"
            raise ConversionFailed(f"{subject} {counts}", first)
        results = {}
        for index, (before, after) in enumerate(zip(review.trees, converted, strict=True)):
            if problem := _problem(before, after, f"{self.group}/{review.version}", index):
                raise ConversionFailed(f"conversion webhook for {described(before)} {problem}", before)
            metadata = {name: after["metadata"][name] for name in _CHANGED_METADATA if after["metadata"].get(name)}
            result = apply_defaults(after, self._schemas.get(review.version) or {})
            results[_key(before), review.version] = {**result, "metadata": metadata}
        excess = len(self._results) + len(results) - _MAX_RESULTS
        for key in tuple(self._results)[: max(excess, 0)]:
            del self._results[key]
        self._results |= results


def described(tree: Tree) -> str:
    """The version and kind of an object, as Go prints them."""
    return f"{tree.get('apiVersion')}, Kind={tree.get('kind')}"


def _key(tree: Tree) -> bytes:
    metadata = tree.get("metadata") or {}
    content = {**tree, "metadata": [metadata.get(name) for name in _CONVERTED_METADATA]}
    return hashlib.blake2b(msgspec.json.encode(content, order="deterministic"), digest_size=16).digest()


def _response(review: Review, answer: Any, version: str, subject: str) -> Tree:
    """The response in an answer. Raises ConversionFailed unless it is a success."""
    first, failed = review.trees[0], f"{subject} failed"
    tree: Tree = answer if isinstance(answer, dict) else {}
    if version == "v1":
        expected = "apiextensions.k8s.io/v1, Kind=ConversionReview"
        if described(tree) != expected:
            raise ConversionFailed(f"{failed}: expected webhook response of {expected}, got {described(tree)}", first)
    response = tree.get("response")
    if not isinstance(response, dict):
        raise ConversionFailed(f"{failed}: no response provided", first)
    uid = review.body["request"]["uid"]
    if version == "v1" and response.get("uid") != uid:
        found = quote(str(response.get("uid") or ""))
        raise ConversionFailed(f"{failed}: expected response.uid={quote(uid)}, got {found}", first)
    result = response.get("result") or {}
    if result.get("status") != "Success":
        default = f"response.result.status was '{result.get('status') or ''}', not 'Success'"
        raise ConversionFailed(f"{failed}: {result.get('message') or default}", first)
    return response


def _problem(before: Tree, after: Any, wanted: str, index: int) -> str:
    """The error of a converted object; empty if it is valid."""
    where = f"at index {index}"
    tree: Tree = after if isinstance(after, dict) else {}
    if tree.get("apiVersion") != wanted:
        detail = f"invalid groupVersion (expected {wanted}, received {tree.get('apiVersion') or ''})"
        return f"returned invalid object {where}: {detail}"
    if tree.get("kind") != before.get("kind"):
        detail = f"invalid kind (expected {before.get('kind')}, received {tree.get('kind') or ''})"
        return f"returned invalid object {where}: {detail}"
    metadata, original = tree.get("metadata"), before.get("metadata") or {}
    if not isinstance(metadata, dict):
        return "returned invalid metadata: missing metadata in converted object"
    for name, shown in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        expected, found = original.get(name) or "", metadata.get(name) or ""
        if expected != found:
            return f"returned invalid object: must have the same {shown}: {expected} != {found}"
    for name in _CHANGED_METADATA:
        for key, value in (metadata.get(name) or {}).items():
            if not isinstance(value, str):
                return (
                    f"returned invalid metadata: metadata.{name}[{key}] must be a string, but is "
                    f"{type(value).__name__} in converted object"
                )
    return ""
