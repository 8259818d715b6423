"""Access reviews and token requests: SelfSubjectReview, TokenReview, SubjectAccessReview and variants, TokenRequest.

Each function takes the decoded object and returns it with its status; nothing is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from allotment.apiserver import api_errors
from allotment.apiserver.access import tokens
from allotment.apiserver.access.authentication import Authenticator
from allotment.apiserver.access.authorization import MASTERS_GROUP, Authorizer
from allotment.apiserver.access.node_authorizer import node_of
from allotment.apiserver.kinds.kind import User
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation.errors import FieldError, forbidden, invalid, required

_AUTHORIZATION: Final = "authorization.k8s.io"
_MIN_SECONDS: Final = 600
_MAX_SECONDS: Final = 2**32
#: expirationSeconds of the projected token volume that admission adds to pods.
_PROJECTED_SECONDS: Final = 3607
_EXTENDED_SECONDS: Final = 365 * 24 * 3600
_DEFAULT_SECONDS: Final = 3600


class AccessControl(NamedTuple):
    """The authenticator and the authorizer, which reviews need together."""

    authenticator: Authenticator
    authorizer: Authorizer


def user_info(user: User) -> Tree:
    """A user as a UserInfo tree."""
    info: Tree = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info


def _review_self(tree: Tree, user: User, access: AccessControl) -> Tree:
    now = access.authenticator.clock().strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {**(tree.get("metadata") or {}), "creationTimestamp": now}
    return {**tree, "metadata": metadata, "status": {"userInfo": user_info(user)}}


def _review_token(tree: Tree, user: User, access: AccessControl) -> Tree:
    spec = tree.get("spec") or {}
    if not spec.get("token"):
        raise api_errors.bad_request("token is required for TokenReview in authentication")
    audiences = tuple(spec.get("audiences") or ()) or (tokens.API_AUDIENCE,)
    reviewed = access.authenticator.authenticate_token(spec["token"], audiences)
    if reviewed is None:
        return {**tree, "status": {"user": {}, "error": "invalid bearer token"}}
    return {**tree, "status": {"authenticated": True, "user": user_info(reviewed), "audiences": list(audiences)}}


# --- access reviews --------------------------------------------------------------------------------------------------


def _attributes_errors(spec: Tree, kind: str) -> Sequence[FieldError]:
    objects, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if objects is not None and path is not None:
        return [
            invalid("spec.nonResourceAttributes", None, "cannot be specified in combination with resourceAttributes")
        ]
    if objects is None and path is None:
        return [
            invalid(
                "spec.resourceAttributes",
                None,
                "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            )
        ]
    return ()


def _with_decision(tree: Tree, subject: User, access: AccessControl) -> Tree:
    spec = tree["spec"]
    attributes = spec.get("resourceAttributes")
    if attributes is not None:
        reason = access.authorizer.refusal_reason(
            subject, attributes.get("verb") or "", attributes.get("group") or "", attributes.get("resource") or "",
            attributes.get("subresource") or "", attributes.get("namespace") or "", attributes.get("name") or "",
            fields=_field_selector(attributes),
        )  # fmt: skip
    else:
        path = spec["nonResourceAttributes"]
        reason = access.authorizer.refusal_reason(subject, path.get("verb") or "", path=path.get("path") or "")
    status: Tree = {"allowed": reason is None}
    if reason:
        status["reason"] = reason
    return {**tree, "status": status}


def _field_selector(attributes: Tree) -> str:
    """The requirements of a reviewed request's field selector that fix a value, as a selector."""
    selector: Tree = attributes.get("fieldSelector") or {}
    if selector.get("rawSelector"):
        return str(selector["rawSelector"])
    requirements: Sequence[Tree] = selector.get("requirements") or ()
    return ",".join(
        f"{item.get('key')}={item['values'][0]}"
        for item in requirements
        if item.get("operator") == "In" and len(item.get("values") or ()) == 1
    )


def _raise_if_invalid(tree: Tree, errors: Sequence[FieldError]) -> None:
    if errors:
        raise api_errors.invalid(_AUTHORIZATION, tree["kind"], "", errors)


def _review_self_access(tree: Tree, user: User, access: AccessControl) -> Tree:
    _raise_if_invalid(tree, _attributes_errors(tree.get("spec") or {}, tree["kind"]))
    return _with_decision(tree, user, access)


def _subject_user(spec: Tree) -> User:
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)


def _review_subject_access(tree: Tree, user: User, access: AccessControl) -> Tree:
    spec = tree.get("spec") or {}
    errors = list(_attributes_errors(spec, tree["kind"]))
    if not spec.get("user") and not spec.get("groups"):
        errors.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    _raise_if_invalid(tree, errors)
    return _with_decision(tree, _subject_user(spec), access)


def _review_local_access(tree: Tree, user: User, access: AccessControl) -> Tree:
    spec = tree.get("spec") or {}
    namespace = (tree.get("metadata") or {}).get("namespace") or ""
    attributes = spec.get("resourceAttributes")
    if attributes is not None and (attributes.get("namespace") or "") != namespace:
        _raise_if_invalid(
            tree,
            [
                invalid(
                    "spec.resourceAttributes.namespace",
                    attributes.get("namespace") or "",
                    "must match metadata.namespace",
                )
            ],
        )
    if spec.get("nonResourceAttributes") is not None:
        _raise_if_invalid(tree, [forbidden("spec.nonResourceAttributes", "disallowed on this kind of request")])
    return _review_subject_access(tree, user, access)


def _review_self_rules(tree: Tree, user: User, access: AccessControl) -> Tree:
    namespace = (tree.get("spec") or {}).get("namespace") or ""
    if not namespace:
        raise api_errors.bad_request("no namespace on request")
    resources: list[Tree] = []
    paths: list[Tree] = []
    if MASTERS_GROUP in user.groups:
        resources.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
        paths.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
    for rule in dict.fromkeys(access.authorizer.rules_for(user, namespace).rules):
        (paths if rule.paths else resources).append(rule.tree())
    status: Tree = {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}
    if node_of(user) is not None:
        status |= {"incomplete": True, "evaluationError": "node authorizer does not support user rule resolution"}
    # Upstream builds a new object for the response, so that metadata and spec are empty.
    return {**tree, "metadata": {}, "spec": {}, "status": status}


#: By bucket: ``(review, requesting user, access control)`` to the review with its status.
REVIEWS: Final[Mapping[str, Callable[[Tree, User, AccessControl], Tree]]] = {
    "selfsubjectreviews.authentication.k8s.io": _review_self,
    "tokenreviews.authentication.k8s.io": _review_token,
    f"selfsubjectaccessreviews.{_AUTHORIZATION}": _review_self_access,
    f"subjectaccessreviews.{_AUTHORIZATION}": _review_subject_access,
    f"localsubjectaccessreviews.{_AUTHORIZATION}": _review_local_access,
    f"selfsubjectrulesreviews.{_AUTHORIZATION}": _review_self_rules,
}


def token_request(account: Tree, body: Tree, access: AccessControl, *, now: datetime, token_id: str) -> Tree:
    """The response to a TokenRequest for a service account (its tree): POST …/serviceaccounts/NAME/token."""
    spec = dict(body.get("spec") or {})
    seconds = spec.get("expirationSeconds") or _DEFAULT_SECONDS
    errors: list[FieldError] = []
    if seconds < _MIN_SECONDS:
        errors.append(invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    if seconds > _MAX_SECONDS:
        errors.append(invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"))
    reference = spec.get("boundObjectRef")
    if reference is not None and not reference.get("name"):
        errors.append(required("spec.boundObjectRef.name"))
    meta = account["metadata"]
    if errors:
        raise api_errors.invalid("authentication.k8s.io", "TokenRequest", meta["name"], errors)
    pod = _bound_pod(reference, meta, access) if reference else None
    audiences = tuple(spec.get("audiences") or ()) or (tokens.API_AUDIENCE,)
    # --service-account-extend-token-expiration: clients that do not reload the token can use it for a year.
    is_extended = pod is not None and seconds == _PROJECTED_SECONDS and audiences == (tokens.API_AUDIENCE,)
    token = tokens.issue(
        access.authenticator.key, account, now=now, seconds=_EXTENDED_SECONDS if is_extended else seconds,
        token_id=token_id, audiences=audiences, pod=pod, node=_node_of(pod, access) if pod is not None else None,
    )  # fmt: skip
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"],
            "creationTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
        "spec": {"audiences": list(audiences), "expirationSeconds": seconds, "boundObjectRef": reference},
        "status": {"token": token, "expirationTimestamp": tokens.expiry(now, seconds)},
    }  # fmt: skip


def _node_of(pod: Tree, access: AccessControl) -> Tree | None:
    """The node of a pod: its name and, while it exists, UID; None before the pod is scheduled."""
    name = (pod.get("spec") or {}).get("nodeName")
    if not name:
        return None
    entry = access.authenticator.reader.get("nodes", "", name)
    return {"name": name} if entry is None else {"name": name, "uid": entry.tree["metadata"]["uid"]}


def _bound_pod(reference: Tree, account: Tree, access: AccessControl) -> Tree:
    """The pod that a token is bound to. Raises StatusError if it does not exist, differs, or has another account."""
    group, _, version = (reference.get("apiVersion") or "").rpartition("/")
    if (group, reference.get("kind")) != ("", "Pod"):
        type_name = f"{group}/{version}, Kind={reference.get('kind') or ''}"
        raise api_errors.bad_request(f"cannot bind token to object of type {type_name}")
    entry = access.authenticator.reader.get("pods", account["namespace"], reference["name"])
    if entry is None:
        raise api_errors.not_found("", "pods", reference["name"])
    if (entry.tree.get("spec") or {}).get("serviceAccountName") != account["name"]:
        raise api_errors.bad_request(
            f"cannot bind token for serviceaccount {quote(account['name'])} to pod running with different "
            "serviceaccount name."
        )
    uid, actual_uid = reference.get("uid"), entry.tree["metadata"].get("uid")
    if uid and uid != actual_uid:
        reason = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. The object might have "
            "been deleted and then recreated"
        )
        raise api_errors.conflict("", "Pod", reference["name"], reason)
    return entry.tree
