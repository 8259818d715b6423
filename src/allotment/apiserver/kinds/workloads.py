"""Workloads that keep pods running: the selector fits the template and stays, the template always restarts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from allotment.apiserver.kinds import checks
from allotment.apiserver.kinds.cluster import count_or_percent
from allotment.apiserver.kinds.defaults.workloads import TEMPLATE_GENERATION
from allotment.apiserver.kinds.kind import Errors, Rules, Write
from allotment.apiserver.kinds.pod_spec import template
from allotment.model.validation import names
from allotment.model.validation.errors import forbidden, invalid, not_supported, required

Tree = dict[str, Any]
Check = Callable[[Tree], Errors]

_STATEFUL_MAY: Final = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
_STATEFUL_ONLY: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def _selected(spec: Tree, word: str, path: str = "spec") -> Errors:
    """The selector and whether it finds the template's pods."""
    selector = spec.get("selector")
    if selector is None:
        yield required(f"{path}.selector")
        return
    yield from checks.label_selector(selector, f"{path}.selector")
    if not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield invalid(f"{path}.selector", selector, f"empty selector is invalid for {word}")


def _template(spec: Tree, word: str) -> Errors:
    wanted: Tree = spec.get("template") or {}
    meta, pod = wanted.get("metadata") or {}, wanted.get("spec") or {}
    selector, labels = spec.get("selector"), meta.get("labels") or {}
    if selector and not checks.matches(selector, labels):
        yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    yield from template(pod, meta, "spec.template")
    if pod.get("restartPolicy") != "Always":
        yield not_supported("spec.template.spec.restartPolicy", pod.get("restartPolicy") or "", ("Always",))
    if pod.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {word} is not Supported"
        yield forbidden("spec.template.spec.activeDeadlineSeconds", detail)


def _deployment(spec: Tree) -> Errors:
    yield from checks.non_negative(spec.get("replicas"), "spec.replicas")
    yield from _selected(spec, "deployment")
    yield from _template(spec, "ReplicaSet")
    strategy = spec.get("strategy") or {}
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            yield forbidden("spec.strategy.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    elif kind == "RollingUpdate":
        yield from _rolling(rolling or {}, "spec.strategy.rollingUpdate")
    else:
        yield not_supported("spec.strategy.type", kind, ("Recreate", "RollingUpdate"))
    for name in ("minReadySeconds", "revisionHistoryLimit"):
        yield from checks.non_negative(spec.get(name), f"spec.{name}")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None:
        yield from checks.non_negative(deadline, "spec.progressDeadlineSeconds")
        if deadline <= (spec.get("minReadySeconds") or 0):
            yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _rolling(rolling: Tree, path: str) -> Errors:
    for name in ("maxUnavailable", "maxSurge"):
        value = rolling.get(name)
        if value is not None:
            yield from count_or_percent(value, f"{path}.{name}")
    if all(rolling.get(name) in (0, "0%", None) for name in ("maxUnavailable", "maxSurge")):
        yield invalid(f"{path}.maxUnavailable", rolling.get("maxUnavailable", 0), "may not be 0 when `maxSurge` is 0")


def _replica_set(spec: Tree) -> Errors:
    yield from checks.non_negative(spec.get("replicas"), "spec.replicas")
    yield from checks.non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from _selected(spec, "deployment")
    yield from _template(spec, "ReplicaSet")


def _daemon_set(spec: Tree) -> Errors:
    yield from _selected(spec, "daemonset")
    yield from _template(spec, "DaemonSet")
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") == "RollingUpdate":
        yield from _rolling(strategy.get("rollingUpdate") or {}, "spec.updateStrategy.rollingUpdate")
    elif strategy.get("type") != "OnDelete":
        yield not_supported("spec.updateStrategy.type", strategy.get("type") or "", ("OnDelete", "RollingUpdate"))
    for name in ("minReadySeconds", "revisionHistoryLimit"):
        yield from checks.non_negative(spec.get(name), f"spec.{name}")


def _template_count(tree: Tree) -> int:
    text = (tree["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION) or "0"
    return int(text) if text.lstrip("-").isdecimal() else 0


def _counting(tree: Tree, count: int) -> Tree:
    metadata = tree["metadata"]
    annotations = {**(metadata.get("annotations") or {}), TEMPLATE_GENERATION: str(count)}
    return {**tree, "metadata": {**metadata, "annotations": annotations}}


def _new_daemon_set(tree: Tree, write: Write) -> Tree:
    return _counting(tree, max(_template_count(tree), 1))


def _kept_daemon_set(new: Tree, old: Tree, write: Write) -> Tree:
    """Only the server counts changes of the template."""
    changed = (new.get("spec") or {}).get("template") != (old.get("spec") or {}).get("template")
    return _counting(new, _template_count(old) + changed)


def _stateful_set(spec: Tree) -> Errors:
    management = spec.get("podManagementPolicy") or ""
    if management not in ("OrderedReady", "Parallel"):
        detail = "must be 'OrderedReady' or 'Parallel'"
        yield (
            invalid("spec.podManagementPolicy", management, detail)
            if management
            else required("spec.podManagementPolicy")
        )
    strategy = (spec.get("updateStrategy") or {}).get("type") or ""
    if strategy not in ("OnDelete", "RollingUpdate"):
        detail = "must be 'RollingUpdate' or 'OnDelete'"
        yield invalid("spec.updateStrategy", strategy, detail) if strategy else required("spec.updateStrategy")
    yield from checks.non_negative(spec.get("replicas"), "spec.replicas")
    yield from checks.non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from _selected(spec, "statefulset")
    yield from _template(spec, "StatefulSet")


def _replication_controller(spec: Tree) -> Errors:
    yield from checks.non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    selector: Mapping[str, str] = spec.get("selector") or {}
    if not selector:
        yield required("spec.selector")
    yield from checks.non_negative(spec.get("replicas"), "spec.replicas")
    wanted = spec.get("template")
    if wanted is None:
        yield required("spec.template")
        return
    meta, pod = wanted.get("metadata") or {}, wanted.get("spec") or {}
    labels = meta.get("labels") or {}
    if selector and not checks.matches({"matchLabels": selector}, labels):
        yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    yield from template(pod, meta, "spec.template")
    if pod.get("restartPolicy") != "Always":
        yield not_supported("spec.template.spec.restartPolicy", pod.get("restartPolicy") or "", ("Always",))


def _rules(
    check: Check, *, fixed: Sequence[str] = ("selector",), more: Callable[[Tree, Tree], Errors] | None = None
) -> Rules:
    def create(tree: Tree, write: Write) -> Errors:
        return check(tree.get("spec") or {})

    def update(new: Tree, old: Tree, write: Write) -> Errors:
        after, before = new.get("spec") or {}, old.get("spec") or {}
        if write.subresource or after == before:
            return
        yield from check(after)
        for name in fixed:
            if after.get(name) != before.get(name):
                yield invalid(f"spec.{name}", after.get(name), "field is immutable")
        if more is not None:
            yield from more(after, before)

    return Rules(validate_create=create, validate_update=update, has_generation=True)


def _stateful_kept(new: Tree, old: Tree) -> Errors:
    kept = {*new, *old} - set(_STATEFUL_MAY)
    if any(new.get(name) != old.get(name) for name in kept):
        yield forbidden("spec", _STATEFUL_ONLY)


def _pod_template(tree: Tree, write: Write) -> Errors:
    wanted = tree.get("template") or {}
    return template(wanted.get("spec") or {}, wanted.get("metadata") or {}, "template")


RULES: Final[Mapping[str, Rules]] = {
    "deployments.apps": _rules(_deployment)._replace(generation_counts=("annotations",)),
    "replicasets.apps": _rules(_replica_set),
    "daemonsets.apps": _rules(_daemon_set)._replace(prepare_create=_new_daemon_set, prepare_update=_kept_daemon_set),
    "statefulsets.apps": _rules(_stateful_set, fixed=(), more=_stateful_kept)._replace(name=names.subdomain_problems),
    "replicationcontrollers": _rules(_replication_controller, fixed=()),
    "podtemplates": Rules(validate_create=_pod_template, has_generation=True),
}  # fmt: skip
