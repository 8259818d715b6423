"""Questions about access, asked as objects: who am I, whose token is this, may I, may they, what may I; and tokens.

Each takes the object as decoded and gives the answer; nothing is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from allotment.apiserver import api_errors
from allotment.apiserver.access import tokens
from allotment.apiserver.access.authentication import Authenticator
from allotment.apiserver.access.authorization import MASTERS, Authorizer
from allotment.apiserver.kinds.kind import User
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation.errors import FieldError, forbidden, invalid, required

_AUTHORIZATION: Final = "authorization.k8s.io"
_LEAST_SECONDS: Final = 600
_MOST_SECONDS: Final = 2**32
#: What admission asks for in every pod's volume, and how long such a token is good.
_POD_SECONDS: Final = 3607
_YEAR_SECONDS: Final = 365 * 24 * 3600
_DEFAULT_SECONDS: Final = 3600


class Access(NamedTuple):
    """Who decides: both halves together, as reviews need them."""

    authenticator: Authenticator
    authorizer: Authorizer


def user_info(user: User) -> Tree:
    """A user as reviews show one."""
    info: Tree = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info


def _self_subject(tree: Tree, user: User, access: Access) -> Tree:
    now = access.authenticator.clock().strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {**(tree.get("metadata") or {}), "creationTimestamp": now}
    return {**tree, "metadata": metadata, "status": {"userInfo": user_info(user)}}


def _token(tree: Tree, user: User, access: Access) -> Tree:
    spec = tree.get("spec") or {}
    if not spec.get("token"):
        raise api_errors.bad_request("token is required for TokenReview in authentication")
    audiences = tuple(spec.get("audiences") or ()) or (tokens.AUDIENCE,)
    found = access.authenticator.of_token(spec["token"], audiences)
    if found is None:
        return {**tree, "status": {"user": {}, "error": "invalid bearer token"}}
    return {**tree, "status": {"authenticated": True, "user": user_info(found), "audiences": list(audiences)}}


# --- may somebody do something ---------------------------------------------------------------------------------------


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


def _judged(tree: Tree, subject: User, access: Access) -> Tree:
    spec = tree["spec"]
    asked = spec.get("resourceAttributes")
    if asked is not None:
        why = access.authorizer(
            subject, asked.get("verb") or "", asked.get("group") or "", asked.get("resource") or "",
            asked.get("subresource") or "", asked.get("namespace") or "", asked.get("name") or "",
        )  # fmt: skip
    else:
        path = spec["nonResourceAttributes"]
        why = access.authorizer(subject, path.get("verb") or "", path=path.get("path") or "")
    status: Tree = {"allowed": why is None}
    _, told, reason = (why or "").partition(": RBAC: ")
    if told:
        status["reason"] = f"RBAC: {reason}"
    return {**tree, "status": status}


def _refuse(tree: Tree, errors: Sequence[FieldError]) -> None:
    if errors:
        raise api_errors.invalid(_AUTHORIZATION, tree["kind"], "", errors)


def _self_access(tree: Tree, user: User, access: Access) -> Tree:
    _refuse(tree, _attributes_errors(tree.get("spec") or {}, tree["kind"]))
    return _judged(tree, user, access)


def _subject(spec: Tree) -> User:
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)


def _subject_access(tree: Tree, user: User, access: Access) -> Tree:
    spec = tree.get("spec") or {}
    errors = list(_attributes_errors(spec, tree["kind"]))
    if not spec.get("user") and not spec.get("groups"):
        errors.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    _refuse(tree, errors)
    return _judged(tree, _subject(spec), access)


def _local_access(tree: Tree, user: User, access: Access) -> Tree:
    spec = tree.get("spec") or {}
    namespace = (tree.get("metadata") or {}).get("namespace") or ""
    asked = spec.get("resourceAttributes")
    if asked is not None and (asked.get("namespace") or "") != namespace:
        _refuse(
            tree,
            [
                invalid(
                    "spec.resourceAttributes.namespace", asked.get("namespace") or "", "must match metadata.namespace"
                )
            ],
        )
    if spec.get("nonResourceAttributes") is not None:
        _refuse(tree, [forbidden("spec.nonResourceAttributes", "disallowed on this kind of request")])
    return _subject_access(tree, user, access)


def _self_rules(tree: Tree, user: User, access: Access) -> Tree:
    namespace = (tree.get("spec") or {}).get("namespace") or ""
    if not namespace:
        raise api_errors.bad_request("no namespace on request")
    resources: list[Tree] = []
    paths: list[Tree] = []
    if MASTERS in user.groups:
        resources.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
        paths.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
    for rule in dict.fromkeys(access.authorizer.granted(user, namespace).rules):
        (paths if rule.paths else resources).append(rule.tree())
    status = {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}
    return {**tree, "status": status}


#: By bucket: ``(review, who asks, who decides)`` to the review with its status.
REVIEWS: Final[Mapping[str, Callable[[Tree, User, Access], Tree]]] = {
    "selfsubjectreviews.authentication.k8s.io": _self_subject,
    "tokenreviews.authentication.k8s.io": _token,
    f"selfsubjectaccessreviews.{_AUTHORIZATION}": _self_access,
    f"subjectaccessreviews.{_AUTHORIZATION}": _subject_access,
    f"localsubjectaccessreviews.{_AUTHORIZATION}": _local_access,
    f"selfsubjectrulesreviews.{_AUTHORIZATION}": _self_rules,
}


def token_request(account: Tree, body: Tree, access: Access, *, now: datetime, token_id: str) -> Tree:
    """The answer to a TokenRequest for a service account (its tree): POST …/serviceaccounts/NAME/token."""
    spec = dict(body.get("spec") or {})
    seconds = spec.get("expirationSeconds") or _DEFAULT_SECONDS
    errors: list[FieldError] = []
    if seconds < _LEAST_SECONDS:
        errors.append(invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    if seconds > _MOST_SECONDS:
        errors.append(invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"))
    reference = spec.get("boundObjectRef")
    if reference is not None and not reference.get("name"):
        errors.append(required("spec.boundObjectRef.name"))
    meta = account["metadata"]
    if errors:
        raise api_errors.invalid("authentication.k8s.io", "TokenRequest", meta["name"], errors)
    pod = _bound_pod(reference, meta, access) if reference else None
    audiences = tuple(spec.get("audiences") or ()) or (tokens.AUDIENCE,)
    # Upstream's --service-account-extend-token-expiration: who does not read its token again keeps it for a year.
    usual = pod is not None and seconds == _POD_SECONDS and audiences == (tokens.AUDIENCE,)
    token = tokens.issue(
        access.authenticator.key, account, now=now, seconds=_YEAR_SECONDS if usual else seconds, token_id=token_id,
        audiences=audiences, pod=pod, node=_node_of(pod, access) if pod is not None else None,
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


def _node_of(pod: Tree, access: Access) -> Tree | None:
    """Where a pod is: name and, while the node is there, UID; None before it is scheduled."""
    name = (pod.get("spec") or {}).get("nodeName")
    if not name:
        return None
    entry = access.authenticator.reader.get("nodes", "", name)
    return {"name": name} if entry is None else {"name": name, "uid": entry.tree["metadata"]["uid"]}


def _bound_pod(reference: Tree, account: Tree, access: Access) -> Tree:
    """The pod that a token is bound to: there, the one that is meant, and run by the account."""
    group, _, version = (reference.get("apiVersion") or "").rpartition("/")
    if (group, reference.get("kind")) != ("", "Pod"):
        sort = f"{group}/{version}, Kind={reference.get('kind') or ''}"
        raise api_errors.bad_request(f"cannot bind token to object of type {sort}")
    entry = access.authenticator.reader.get("pods", account["namespace"], reference["name"])
    if entry is None:
        raise api_errors.not_found("", "pods", reference["name"])
    if (entry.tree.get("spec") or {}).get("serviceAccountName") != account["name"]:
        raise api_errors.bad_request(
            f"cannot bind token for serviceaccount {quote(account['name'])} to pod running with different "
            "serviceaccount name."
        )
    uid, found = reference.get("uid"), entry.tree["metadata"].get("uid")
    if uid and uid != found:
        why = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. The object might have "
            "been deleted and then recreated"
        )
        raise api_errors.conflict("", "Pod", reference["name"], why)
    return entry.tree
