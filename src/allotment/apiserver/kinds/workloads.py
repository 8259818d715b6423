"""Workloads that keep pods running: the selector fits the template and stays, the template always restarts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.defaults.workloads import TEMPLATE_GENERATION
from allotment.apiserver.kinds.kind import Errors, Rules, Write
from allotment.apiserver.kinds.pod_spec import template
from allotment.apiserver.kinds.volume_claims import claim_spec
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import forbidden, invalid, not_supported, required
from allotment.model.validation.gotext import GoNamedString, GoStruct

Check = Callable[[Tree], Errors]

_STATEFUL_MAY: Final = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
_STATEFUL_ONLY: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def _selected(spec: Tree, word: str) -> Errors:
    """The selector itself."""
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
        return
    yield from field_validation.label_selector(selector, "spec.selector")
    if not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield invalid("spec.selector", field_validation.shown(selector), f"empty selector is invalid for {word}")


def _fitting(selector: Tree | None, wanted: Tree) -> Errors:
    """Whether a usable selector finds the template's pods."""
    labels = (wanted.get("metadata") or {}).get("labels")
    if not field_validation.matches(selector, labels or {}):
        yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def _lasting(pod: Tree, word: str) -> Errors:
    """Pods that are to run on and on."""
    if pod.get("restartPolicy") != "Always":
        policy = GoNamedString(pod.get("restartPolicy") or "")
        yield not_supported("spec.template.spec.restartPolicy", policy, ("Always",))
    if pod.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {word} is not Supported"
        yield forbidden("spec.template.spec.activeDeadlineSeconds", detail)


def _replicated(spec: Tree) -> Errors:
    """Selector and template of a Deployment or ReplicaSet."""
    yield from _selected(spec, "deployment")
    selector, wanted = spec.get("selector"), spec.get("template") or {}
    if not field_validation.readable(selector):
        yield invalid("spec.selector", field_validation.shown(selector), "invalid label selector")
        return
    yield from _fitting(selector, wanted)
    yield from template(wanted.get("spec") or {}, wanted.get("metadata") or {}, "spec.template")
    yield from _lasting(wanted.get("spec") or {}, "ReplicaSet")


def _deployment(spec: Tree) -> Errors:
    yield from field_validation.non_negative(spec.get("replicas"), "spec.replicas")
    yield from _replicated(spec)
    yield from _deployment_strategy(spec.get("strategy") or {}, "spec.strategy")
    for name in ("minReadySeconds", "revisionHistoryLimit"):
        yield from field_validation.non_negative(spec.get(name), f"spec.{name}")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None:
        yield from field_validation.non_negative(deadline, "spec.progressDeadlineSeconds")
        if deadline <= (spec.get("minReadySeconds") or 0):
            yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _deployment_strategy(strategy: Tree, path: str) -> Errors:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            yield forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    elif kind == "RollingUpdate":
        at, rolling = f"{path}.rollingUpdate", rolling or {}
        for name in ("maxUnavailable", "maxSurge"):
            yield from field_validation.count_or_percent(rolling.get(name) or 0, f"{at}.{name}")
        if all(field_validation.counts_nothing(rolling.get(name)) for name in ("maxUnavailable", "maxSurge")):
            least = rolling.get("maxUnavailable") or 0
            yield invalid(f"{at}.maxUnavailable", least, "may not be 0 when `maxSurge` is 0")
        yield from field_validation.at_most_all(rolling.get("maxUnavailable"), f"{at}.maxUnavailable")
    else:
        yield not_supported(path, _as_in_go(strategy), ("Recreate", "RollingUpdate"))


def _as_in_go(strategy: Tree) -> Tree:
    """How upstream's messages show a strategy that it does not know."""
    rolling = strategy.get("rollingUpdate")
    if rolling is not None:
        rolling = GoStruct(MaxUnavailable=rolling.get("maxUnavailable") or 0, MaxSurge=rolling.get("maxSurge") or 0)
    return GoStruct(Type=strategy.get("type") or "", RollingUpdate=rolling)


def _replica_set(spec: Tree) -> Errors:
    yield from field_validation.non_negative(spec.get("replicas"), "spec.replicas")
    yield from field_validation.non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from _replicated(spec)


def _daemon_set(spec: Tree) -> Errors:
    selector, wanted = spec.get("selector"), spec.get("template") or {}
    yield from field_validation.label_selector(selector, "spec.selector")
    if field_validation.readable(selector):
        yield from _fitting(selector, wanted)
    if selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield invalid("spec.selector", field_validation.shown(selector), "empty selector is invalid for daemonset")
    yield from template(wanted.get("spec") or {}, wanted.get("metadata") or {}, "spec.template")
    yield from _lasting(wanted.get("spec") or {}, "DaemonSet")
    yield from field_validation.non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from _daemon_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    yield from field_validation.non_negative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")


def _daemon_strategy(strategy: Tree, path: str) -> Errors:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if kind == "OnDelete":
        return
    if kind != "RollingUpdate":
        yield not_supported(path, _as_in_go(strategy), ("RollingUpdate", "OnDelete"))
        return
    at = f"{path}.rollingUpdate"
    if rolling is None:
        yield required(at)
        return
    for check in (field_validation.count_or_percent, field_validation.at_most_all):
        for name in ("maxUnavailable", "maxSurge"):
            yield from check(rolling.get(name) or 0, f"{at}.{name}")
    short, more = (not field_validation.counts_nothing(rolling.get(name)) for name in ("maxUnavailable", "maxSurge"))
    if short and more:
        yield invalid(f"{at}.maxSurge", rolling["maxSurge"], "may not be set when maxUnavailable is non-zero")
    elif not short and not more:
        yield required(f"{at}.maxUnavailable", "cannot be 0 when maxSurge is 0")


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
    if not management:
        yield required("spec.podManagementPolicy")
    elif management not in ("OrderedReady", "Parallel"):
        yield invalid("spec.podManagementPolicy", GoNamedString(management), "must be 'OrderedReady' or 'Parallel'")
    yield from _stateful_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    kept = spec.get("persistentVolumeClaimRetentionPolicy")
    if kept is not None:
        for name in ("whenDeleted", "whenScaled"):
            if kept.get(name) not in ("Retain", "Delete"):
                at = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
                yield not_supported(at, GoNamedString(kept.get(name) or ""), ("Retain", "Delete"))
    claims: Sequence[Tree] = spec.get("volumeClaimTemplates") or ()
    for index, claim in enumerate(claims):
        yield from claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec")
    yield from field_validation.non_negative(spec.get("replicas"), "spec.replicas")
    yield from field_validation.non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from field_validation.non_negative((spec.get("ordinals") or {}).get("start"), "spec.ordinals.start")
    if spec.get("serviceName"):
        yield from names.label(spec["serviceName"], "spec.serviceName")
    yield from _selected(spec, "statefulset")
    selector, wanted = spec.get("selector"), spec.get("template") or {}
    meta, pod = wanted.get("metadata") or {}, wanted.get("spec") or {}
    if not field_validation.readable(selector):
        yield invalid("spec.selector", field_validation.shown(selector), "")
    else:
        yield from _fitting(selector, wanted)
        yield from template(_with_claims(pod, claims), meta, "spec.template")
        yield from field_validation.labels(meta.get("labels") or {}, "spec.template.labels")
    yield from _lasting(pod, "StatefulSet")


def _stateful_strategy(strategy: Tree, path: str) -> Errors:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    at = f"{path}.rollingUpdate"
    if rolling is not None:
        shown = GoStruct(Partition=rolling.get("partition") or 0, MaxUnavailable=None)
    else:
        shown = None
    if not kind:
        yield required(path)
    elif kind == "OnDelete":
        if rolling is not None:
            yield invalid(at, shown, "only allowed for updateStrategy 'RollingUpdate'")
    elif kind != "RollingUpdate":
        detail = "must be 'RollingUpdate' or 'OnDelete'"
        yield invalid(path, GoStruct(Type=kind, RollingUpdate=shown), detail)
    elif rolling is not None:
        yield from field_validation.non_negative(rolling.get("partition"), f"{at}.partition")


def _one_at_a_time(tree: Tree, write: Write) -> Tree:
    """Without how many of a StatefulSet's pods may be away in an update: a beta that is off by default."""
    strategy = (tree.get("spec") or {}).get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    if "maxUnavailable" not in rolling:
        return tree
    rest = {name: value for name, value in rolling.items() if name != "maxUnavailable"}
    return {**tree, "spec": {**tree["spec"], "updateStrategy": {**strategy, "rollingUpdate": rest}}}


def _with_claims(pod: Tree, claims: Sequence[Tree]) -> Tree:
    """The pods that the controller makes: it names them, and mounts the claims that it makes for each."""
    own = {(claim.get("metadata") or {}).get("name") or "" for claim in claims}
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in sorted(own)]
    volumes += [volume for volume in pod.get("volumes") or () if volume.get("name") not in own]
    rest = {name: value for name, value in pod.items() if name not in ("subdomain", "hostname", "volumes")}
    return {**rest, "volumes": volumes} if volumes else rest


def _replication_controller(spec: Tree) -> Errors:
    yield from field_validation.non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    selector: Mapping[str, str] = spec.get("selector") or {}
    if not selector:
        yield required("spec.selector")
    yield from field_validation.non_negative(spec.get("replicas"), "spec.replicas")
    wanted = spec.get("template")
    if wanted is None:
        yield required("spec.template")
        return
    if selector:
        yield from _fitting({"matchLabels": selector}, wanted)
    yield from template(wanted.get("spec") or {}, wanted.get("metadata") or {}, "spec.template")
    yield from _lasting(wanted.get("spec") or {}, "ReplicationController")


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
                yield invalid(f"spec.{name}", field_validation.shown(after.get(name)), "field is immutable")
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
    "statefulsets.apps": _rules(_stateful_set, fixed=(), more=_stateful_kept)._replace(
        name=names.label_problems,
        prepare_create=_one_at_a_time,
        prepare_update=lambda new, old, write: _one_at_a_time(new, write),
    ),
    "replicationcontrollers": _rules(_replication_controller, fixed=()),
    "podtemplates": Rules(validate_create=_pod_template, has_generation=True),
}  # fmt: skip
