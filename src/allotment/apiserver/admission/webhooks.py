"""Admission webhooks: which are called for a request, and what follows from their answers.

Mutating webhooks are called one after the other, sorted by the names of their configurations; validating ones together.
Their answers are in an :class:`~.attempts.Attempt`; an answer that is missing raises CallsNeeded. The lab has no audit
log, so audit annotations have no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from allotment.apiserver import api_errors
from allotment.apiserver.access.authorization import Authorizer
from allotment.apiserver.admission import admission_review
from allotment.apiserver.admission.admission_review import (
    Decision,
    InvalidReview,
    UndecodablePatch,
    UndecodableReview,
    rejection,
    review_body,
    review_request,
)
from allotment.apiserver.admission.attempts import Attempt, Call, CallsNeeded
from allotment.apiserver.admission.attributes import Attributes, request_values
from allotment.apiserver.admission.expressions import Compiler, Expression, OutOfBudget
from allotment.apiserver.admission.matching import ConditionsFailed, is_exempt, meets_conditions, webhook_version
from allotment.apiserver.admission.object_patches import PatchFailed, decoded, patched
from allotment.apiserver.admission.reinvocation import Reinvocation
from allotment.apiserver.conversion import as_stored
from allotment.apiserver.kinds.webhook_clients import REVIEW_VERSIONS
from allotment.apiserver.outbound.client import target_of
from allotment.apiserver.outbound.errors import CallFailed
from allotment.apiserver.storage.store import Change, Entry, Store
from allotment.cel.checking import types
from allotment.cluster.errors import StatusError
from allotment.model.quoting import quote
from allotment.model.trees import Tree

MUTATING: Final = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING: Final = "validatingwebhookconfigurations.admissionregistration.k8s.io"
_HARMLESS: Final = ("None", "NoneOnDryRun")
_DEFAULT_SECONDS: Final = 10
_NO_VERSION: Final = (
    "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
)

_encode = msgspec.json.Encoder().encode


class Webhook(NamedTuple):
    """A webhook of a configuration, with its compiled matchConditions. ``uid`` identifies it among all of them."""

    uid: str
    tree: Tree
    conditions: Sequence[Expression]

    @property
    def name(self) -> str:
        """Its name in messages."""
        return str(self.tree["name"])

    @property
    def ignores_failures(self) -> bool:
        """Whether a call that fails admits the request."""
        return self.tree.get("failurePolicy") == "Ignore"


class _Invocation(NamedTuple):
    """A webhook that a request matches, in a version, and the version of its AdmissionReview."""

    webhook: Webhook
    version: str
    review: str


class Webhooks:
    """The webhooks of a store, compiled when they are first needed after a change."""

    def __init__(self, store: Store, kube: str, authorizer: Authorizer) -> None:
        self._store, self._kube, self._authorizer = store, kube, authorizer
        self._mutating = _Configurations(store, MUTATING, kube)
        self._validating = _Configurations(store, VALIDATING, kube)

    def close(self) -> None:
        """Unsubscribe from changes of the store."""
        self._mutating.close()
        self._validating.close()

    @property
    def exist(self) -> bool:
        """Whether there is any webhook."""
        return bool(self._mutating.current() or self._validating.current())

    @property
    def mutating_exist(self) -> bool:
        """Whether there is any mutating webhook."""
        return bool(self._mutating.current())

    def mutate(
        self, attributes: Attributes, attempt: Attempt | None, calls: Reinvocation,
        default: Callable[[Tree, Tree], Tree],
    ) -> Tree | None:  # fmt: skip
        """The new object after the mutating webhooks. Raises StatusError and CallsNeeded.

        ``default``: completes an object that a webhook has changed; its second argument is the object before.
        """
        if is_exempt(attributes) or not calls.begin_round(attributes.new):
            return attributes.new
        for webhook in self._mutating.current():
            invocation = self._invocation(webhook, attributes)
            if invocation is None or not calls.includes(webhook.uid):
                continue
            answer = _answer(invocation, attributes, attempt, calls.round)
            before = attributes.new
            try:
                decided = _decision(invocation, answer, mutating=True)
                if not decided.is_allowed:
                    raise rejection(webhook.name, decided.result)
                _warn(attributes, decided)
                attributes = attributes._replace(new=_patched(invocation, attributes, decided, default))
            except _CallingFailed as failure:
                if not webhook.ignores_failures:
                    raise api_errors.internal(str(failure)) from None
            calls.record_call(
                webhook.uid, changed=attributes.new != before,
                is_repeatable=webhook.tree.get("reinvocationPolicy") == "IfNeeded",
            )  # fmt: skip
        calls.end_round(attributes.new)
        return attributes.new

    def validate(self, attributes: Attributes, attempt: Attempt | None) -> None:
        """Raise StatusError if a validating webhook denies the request. Raises CallsNeeded."""
        if is_exempt(attributes):
            return
        found = (self._invocation(webhook, attributes) for webhook in self._validating.current())
        invocations = [invocation for invocation in found if invocation is not None]
        answers: list[_Answer | StatusError] = []
        needed: list[Call] = []
        for invocation in invocations:
            try:
                answers.append(_answer(invocation, attributes, attempt, 0))
            except CallsNeeded as missing:
                needed += missing.calls
            except StatusError as refusal:
                answers.append(refusal)
        if needed:
            raise CallsNeeded(needed)
        errors = [
            error
            for invocation, answer in zip(invocations, answers, strict=True)
            if (error := _denial(invocation, answer, attributes)) is not None
        ]
        if errors:
            raise errors[0]

    def _invocation(self, webhook: Webhook, attributes: Attributes) -> _Invocation | None:
        """The call of a webhook for a request; None if it does not match."""
        version = webhook_version(attributes, webhook.tree, self._store)
        if version is None or not self._meets_conditions(webhook, attributes, version):
            return None
        accepted = webhook.tree.get("admissionReviewVersions") or ()
        return _Invocation(webhook, version, next((v for v in accepted if v in REVIEW_VERSIONS), ""))

    def _meets_conditions(self, webhook: Webhook, attributes: Attributes, version: str) -> bool:
        if not webhook.conditions:
            return True
        try:
            return meets_conditions(
                webhook.conditions, request_values(attributes, version, None, self._authorizer)
            )  # fmt: skip
        except (ConditionsFailed, OutOfBudget) as error:
            if webhook.ignores_failures:
                return False
            raise api_errors.forbidden(attributes.kind, attributes.name, str(error)) from None


class _Configurations:
    """The webhooks of the configurations of one kind, in the order in which they are called."""

    def __init__(self, store: Store, bucket: str, kube: str) -> None:
        self._store, self._bucket, self._kube = store, bucket, kube
        self._webhooks: list[Webhook] | None = None
        self.close = store.subscribe(bucket, self._invalidate, early=True)

    def _invalidate(self, change: Change) -> None:
        self._webhooks = None

    def current(self) -> list[Webhook]:
        if self._webhooks is None:
            self._webhooks = [hook for entry in self._store.list(self._bucket) for hook in self._compiled(entry)]
        return self._webhooks

    def _compiled(self, entry: Entry) -> list[Webhook]:
        webhooks: Sequence[Tree] = entry.tree.get("webhooks") or ()
        compiler = Compiler(self._kube, "stored", has_params=False, composition=False)
        return [
            Webhook(
                f"{entry.name}/{hook['name']}/{index}", hook,
                [compiler.compile(item["expression"], (types.BOOL,)) for item in hook.get("matchConditions") or ()],
            )
            for index, hook in enumerate(webhooks)
        ]  # fmt: skip


class _CallingFailed(Exception):
    """Raised if a webhook could not be called, or gave no valid answer; the failure policy decides."""

    def __init__(self, webhook: Webhook, reason: str) -> None:
        super().__init__(f"failed calling webhook {quote(webhook.name)}: {reason}")


class _Answer(NamedTuple):
    """The JSON of an answer to the request ``uid``, or the reason that there is none."""

    uid: str
    content: Any | CallFailed


def _answer(invocation: _Invocation, attributes: Attributes, attempt: Attempt | None, round_: int) -> _Answer:
    """The answer of a webhook. Raises CallsNeeded if it has not been called, StatusError if it must not be called."""
    webhook = invocation.webhook
    if attributes.dry_run and webhook.tree.get("sideEffects") not in _HARMLESS:
        raise api_errors.bad_request(f"admission webhook {quote(webhook.name)} does not support dry run")
    if attempt is None:
        raise api_errors.internal(f"webhook {quote(webhook.name)} cannot be called for writes of the server itself")
    if not invocation.review:
        return _Answer("", CallFailed(_NO_VERSION))
    config = webhook.tree.get("clientConfig") or {}
    try:
        target_of(config)
    except CallFailed as failure:
        return _Answer("", CallFailed(f"could not get REST client: {failure}"))
    request = review_request(attributes, invocation.version)
    key = _encode((webhook.uid, config, invocation.review, round_, request))
    if key not in attempt.answers:
        uid = attempt.request_uid()
        seconds = webhook.tree.get("timeoutSeconds") or _DEFAULT_SECONDS
        body = review_body({**request, "uid": uid}, invocation.review)
        raise CallsNeeded([Call(key, config, body, seconds, uid)])
    uid, content = attempt.answers[key]
    return _Answer(
        uid, CallFailed(f"failed to call webhook: {content}") if isinstance(content, CallFailed) else content
    )


def _decision(invocation: _Invocation, answer: _Answer, *, mutating: bool) -> Decision:
    """The decision in an answer. Raises _CallingFailed."""
    webhook = invocation.webhook
    if isinstance(answer.content, CallFailed):
        raise _CallingFailed(webhook, str(answer.content))
    try:
        decided = admission_review.decision(answer.content, answer.uid, invocation.review, mutating=mutating)
    except InvalidReview as error:
        raise _CallingFailed(webhook, f"received invalid webhook response: {error}") from None
    except UndecodableReview as error:
        raise _CallingFailed(webhook, f"failed to call webhook: {error}") from None
    except UndecodablePatch as error:
        raise _CallingFailed(webhook, f"received undecodable patch in webhook response: {error}") from None
    if mutating and decided.patch and (patch_type := admission_review.unsupported_patch_type(answer.content)):
        raise _CallingFailed(webhook, f"unsupported patch type {quote(patch_type)}")
    return decided


def _denial(invocation: _Invocation, answer: _Answer | StatusError, attributes: Attributes) -> StatusError | None:
    """The error that follows from the answer of a validating webhook."""
    if isinstance(answer, StatusError):
        return answer
    try:
        decided = _decision(invocation, answer, mutating=False)
    except _CallingFailed as failure:
        return None if invocation.webhook.ignores_failures else api_errors.internal(str(failure))
    _warn(attributes, decided)
    return None if decided.is_allowed else rejection(invocation.webhook.name, decided.result)


def _warn(attributes: Attributes, decided: Decision) -> None:
    for text in decided.warnings:
        attributes.warn(text)


def _patched(
    invocation: _Invocation, attributes: Attributes, decided: Decision, default: Callable[[Tree, Tree], Tree]
) -> Tree | None:
    """The new object after the patch of a webhook, in the storage version."""
    if not decided.patch:
        return attributes.new
    shown = attributes.converted(attributes.new, invocation.version)
    if shown is None:
        name = quote(invocation.webhook.name)
        reason = f"admission webhook {name} attempted to modify the object, which is not supported for this operation"
        raise api_errors.internal(reason)
    try:
        tree = patched(shown, decided.patch)
    except PatchFailed as failure:
        raise api_errors.internal(str(failure)) from None
    result = decoded(tree, shown, attributes, invocation.version)
    for violation in result.violations:
        if violation.category in ("type", "value"):
            raise api_errors.internal(violation.message)
    if attributes.body_kind is not None or attributes.new is None:
        return result.tree
    return default(as_stored(attributes.kind, invocation.version, result.tree), attributes.new)
