"""Validation of Deployments, ReplicaSets, DaemonSets, StatefulSets, ReplicationControllers and PodTemplates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.defaults.workloads import TEMPLATE_GENERATION
from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.apiserver.kinds.pod_spec import template
from allotment.apiserver.kinds.volume_claims import claim_spec
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import forbidden, invalid, not_supported, required
from allotment.model.validation.gotext import GoNamedString, GoStruct

Check = Callable[[Tree], Errors]

_STATEFUL_SET_MUTABLE: Final = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
_STATEFUL_SET_FORBIDDEN: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def _selector(spec: Tree, kind: str) -> Errors:
    """Validate the selector itself."""
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
        return
    yield from field_validation.label_selector(selector, "spec.selector")
    if not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield invalid(
            "spec.selector", field_validation.selector_value(selector), f"empty selector is invalid for {kind}"
        )


def _selector_matches_template(selector: Tree | None, pod_template: Tree) -> Errors:
    """A valid selector must match the labels of the template."""
    labels = (pod_template.get("metadata") or {}).get("labels")
    if not field_validation.selector_matches(selector, labels or {}):
        yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def _always_restarts(pod: Tree, kind: str) -> Errors:
    """Pods of workloads must restart always and have no deadline."""
    if pod.get("restartPolicy") != "Always":
        policy = GoNamedString(pod.get("restartPolicy") or "")
        yield not_supported("spec.template.spec.restartPolicy", policy, ("Always",))
    if pod.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        yield forbidden("spec.template.spec.activeDeadlineSeconds", detail)


def _selector_and_template(spec: Tree) -> Errors:
    """Validate selector and template of a Deployment or ReplicaSet."""
    yield from _selector(spec, "deployment")
    selector, pod_template = spec.get("selector"), spec.get("template") or {}
    if not field_validation.is_valid_selector(selector):
        yield invalid("spec.selector", field_validation.selector_value(selector), "invalid label selector")
        return
    yield from _selector_matches_template(selector, pod_template)
    yield from template(pod_template.get("spec") or {}, pod_template.get("metadata") or {}, "spec.template")
    yield from _always_restarts(pod_template.get("spec") or {}, "ReplicaSet")


def _deployment(spec: Tree) -> Errors:
    yield from field_validation.non_negative(spec.get("replicas"), "spec.replicas")
    yield from _selector_and_template(spec)
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
        item_path, rolling = f"{path}.rollingUpdate", rolling or {}
        for name in ("maxUnavailable", "maxSurge"):
            yield from field_validation.int_or_percent(rolling.get(name) or 0, f"{item_path}.{name}")
        if all(field_validation.is_zero(rolling.get(name)) for name in ("maxUnavailable", "maxSurge")):
            max_unavailable = rolling.get("maxUnavailable") or 0
            yield invalid(f"{item_path}.maxUnavailable", max_unavailable, "may not be 0 when `maxSurge` is 0")
        yield from field_validation.at_most_100_percent(rolling.get("maxUnavailable"), f"{item_path}.maxUnavailable")
    else:
        yield not_supported(path, _strategy_value(strategy), ("Recreate", "RollingUpdate"))


def _strategy_value(strategy: Tree) -> Tree:
    """A strategy of unknown type, as printed in messages."""
    rolling = strategy.get("rollingUpdate")
    if rolling is not None:
        rolling = GoStruct(MaxUnavailable=rolling.get("maxUnavailable") or 0, MaxSurge=rolling.get("maxSurge") or 0)
    return GoStruct(Type=strategy.get("type") or "", RollingUpdate=rolling)


def _replica_set(spec: Tree) -> Errors:
    yield from field_validation.non_negative(spec.get("replicas"), "spec.replicas")
    yield from field_validation.non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from _selector_and_template(spec)


def _daemon_set(spec: Tree) -> Errors:
    selector, pod_template = spec.get("selector"), spec.get("template") or {}
    yield from field_validation.label_selector(selector, "spec.selector")
    if field_validation.is_valid_selector(selector):
        yield from _selector_matches_template(selector, pod_template)
    if selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield invalid(
            "spec.selector", field_validation.selector_value(selector), "empty selector is invalid for daemonset"
        )
    yield from template(pod_template.get("spec") or {}, pod_template.get("metadata") or {}, "spec.template")
    yield from _always_restarts(pod_template.get("spec") or {}, "DaemonSet")
    yield from field_validation.non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from _daemon_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    yield from field_validation.non_negative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")


def _daemon_strategy(strategy: Tree, path: str) -> Errors:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if kind == "OnDelete":
        return
    if kind != "RollingUpdate":
        yield not_supported(path, _strategy_value(strategy), ("RollingUpdate", "OnDelete"))
        return
    item_path = f"{path}.rollingUpdate"
    if rolling is None:
        yield required(item_path)
        return
    for check in (field_validation.int_or_percent, field_validation.at_most_100_percent):
        for name in ("maxUnavailable", "maxSurge"):
            yield from check(rolling.get(name) or 0, f"{item_path}.{name}")
    unavailable, surge = (not field_validation.is_zero(rolling.get(name)) for name in ("maxUnavailable", "maxSurge"))
    if unavailable and surge:
        yield invalid(f"{item_path}.maxSurge", rolling["maxSurge"], "may not be set when maxUnavailable is non-zero")
    elif not unavailable and not surge:
        yield required(f"{item_path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def _template_generation(tree: Tree) -> int:
    text = (tree["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION) or "0"
    return int(text) if text.lstrip("-").isdecimal() else 0


def _with_template_generation(tree: Tree, generation: int) -> Tree:
    metadata = tree["metadata"]
    annotations = {**(metadata.get("annotations") or {}), TEMPLATE_GENERATION: str(generation)}
    return {**tree, "metadata": {**metadata, "annotations": annotations}}


def _prepare_daemon_set_create(tree: Tree, write: Write) -> Tree:
    return _with_template_generation(tree, max(_template_generation(tree), 1))


def _prepare_daemon_set_update(new: Tree, old: Tree, write: Write) -> Tree:
    """Only the server counts changes of the template."""
    changed = (new.get("spec") or {}).get("template") != (old.get("spec") or {}).get("template")
    return _with_template_generation(new, _template_generation(old) + changed)


def _stateful_set(spec: Tree) -> Errors:
    management = spec.get("podManagementPolicy") or ""
    if not management:
        yield required("spec.podManagementPolicy")
    elif management not in ("OrderedReady", "Parallel"):
        yield invalid("spec.podManagementPolicy", GoNamedString(management), "must be 'OrderedReady' or 'Parallel'")
    yield from _stateful_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    retention = spec.get("persistentVolumeClaimRetentionPolicy")
    if retention is not None:
        for name in ("whenDeleted", "whenScaled"):
            if retention.get(name) not in ("Retain", "Delete"):
                path = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
                yield not_supported(path, GoNamedString(retention.get(name) or ""), ("Retain", "Delete"))
    claims: Sequence[Tree] = spec.get("volumeClaimTemplates") or ()
    for index, claim in enumerate(claims):
        yield from claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec")
    yield from field_validation.non_negative(spec.get("replicas"), "spec.replicas")
    yield from field_validation.non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from field_validation.non_negative((spec.get("ordinals") or {}).get("start"), "spec.ordinals.start")
    if spec.get("serviceName"):
        yield from names.label(spec["serviceName"], "spec.serviceName")
    yield from _selector(spec, "statefulset")
    selector, pod_template = spec.get("selector"), spec.get("template") or {}
    meta, pod = pod_template.get("metadata") or {}, pod_template.get("spec") or {}
    if not field_validation.is_valid_selector(selector):
        yield invalid("spec.selector", field_validation.selector_value(selector), "")
    else:
        yield from _selector_matches_template(selector, pod_template)
        yield from template(_with_claim_volumes(pod, claims), meta, "spec.template")
        yield from field_validation.labels(meta.get("labels") or {}, "spec.template.labels")
    yield from _always_restarts(pod, "StatefulSet")


def _stateful_strategy(strategy: Tree, path: str) -> Errors:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    item_path = f"{path}.rollingUpdate"
    if rolling is not None:
        printed = GoStruct(Partition=rolling.get("partition") or 0, MaxUnavailable=None)
    else:
        printed = None
    if not kind:
        yield required(path)
    elif kind == "OnDelete":
        if rolling is not None:
            yield invalid(item_path, printed, "only allowed for updateStrategy 'RollingUpdate'")
    elif kind != "RollingUpdate":
        detail = "must be 'RollingUpdate' or 'OnDelete'"
        yield invalid(path, GoStruct(Type=kind, RollingUpdate=printed), detail)
    elif rolling is not None:
        yield from field_validation.non_negative(rolling.get("partition"), f"{item_path}.partition")


def _without_max_unavailable(tree: Tree, write: Write) -> Tree:
    """Drop ``maxUnavailable`` of a StatefulSet, a beta feature that is off by default."""
    strategy = (tree.get("spec") or {}).get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    if "maxUnavailable" not in rolling:
        return tree
    rest = {name: value for name, value in rolling.items() if name != "maxUnavailable"}
    return {**tree, "spec": {**tree["spec"], "updateStrategy": {**strategy, "rollingUpdate": rest}}}


def _with_claim_volumes(pod: Tree, claims: Sequence[Tree]) -> Tree:
    """The pod spec with the changes of the controller: no host name, and a volume for each claim template."""
    claim_names = {(claim.get("metadata") or {}).get("name") or "" for claim in claims}
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in sorted(claim_names)]
    volumes += [volume for volume in pod.get("volumes") or () if volume.get("name") not in claim_names]
    rest = {name: value for name, value in pod.items() if name not in ("subdomain", "hostname", "volumes")}
    return {**rest, "volumes": volumes} if volumes else rest


def _replication_controller(spec: Tree) -> Errors:
    yield from field_validation.non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    selector: Mapping[str, str] = spec.get("selector") or {}
    if not selector:
        yield required("spec.selector")
    yield from field_validation.non_negative(spec.get("replicas"), "spec.replicas")
    pod_template = spec.get("template")
    if pod_template is None:
        yield required("spec.template")
        return
    if selector:
        yield from _selector_matches_template({"matchLabels": selector}, pod_template)
    yield from template(pod_template.get("spec") or {}, pod_template.get("metadata") or {}, "spec.template")
    yield from _always_restarts(pod_template.get("spec") or {}, "ReplicationController")


def _rules(
    check: Check,
    *,
    immutable: Sequence[str] = ("selector",),
    update_check: Callable[[Tree, Tree], Errors] | None = None,
) -> KindRules:
    def create(tree: Tree, write: Write) -> Errors:
        return check(tree.get("spec") or {})

    def update(new: Tree, old: Tree, write: Write) -> Errors:
        after, before = new.get("spec") or {}, old.get("spec") or {}
        if write.subresource or after == before:
            return
        yield from check(after)
        for name in immutable:
            if after.get(name) != before.get(name):
                yield invalid(f"spec.{name}", field_validation.selector_value(after.get(name)), "field is immutable")
        if update_check is not None:
            yield from update_check(after, before)

    return KindRules(validate_create=create, validate_update=update, has_generation=True)


def _stateful_set_update(new: Tree, old: Tree) -> Errors:
    immutable = {*new, *old} - set(_STATEFUL_SET_MUTABLE)
    if any(new.get(name) != old.get(name) for name in immutable):
        yield forbidden("spec", _STATEFUL_SET_FORBIDDEN)


def _pod_template(tree: Tree, write: Write) -> Errors:
    pod_template = tree.get("template") or {}
    return template(pod_template.get("spec") or {}, pod_template.get("metadata") or {}, "template")


RULES: Final[Mapping[str, KindRules]] = {
    "deployments.apps": _rules(_deployment)._replace(generation_counts=("annotations",)),
    "replicasets.apps": _rules(_replica_set),
    "daemonsets.apps": _rules(_daemon_set)._replace(
        prepare_create=_prepare_daemon_set_create, prepare_update=_prepare_daemon_set_update
    ),
    "statefulsets.apps": _rules(_stateful_set, immutable=(), update_check=_stateful_set_update)._replace(
        name=names.label_problems,
        prepare_create=_without_max_unavailable,
        prepare_update=lambda new, old, write: _without_max_unavailable(new, write),
    ),
    "replicationcontrollers": _rules(_replication_controller, immutable=()),
    "podtemplates": KindRules(validate_create=_pod_template, has_generation=True),
}  # fmt: skip
