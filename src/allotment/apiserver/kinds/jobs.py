"""Jobs: the generated selector, validation, and the fields that can change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.job_policies import pod_failure_policy, success_policy
from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.apiserver.kinds.pod_spec import template
from allotment.apiserver.kinds.pod_spec_diff import pod_template_value
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.declarative import declared_errors, merged
from allotment.model.validation.errors import Errors as ErrorIterator
from allotment.model.validation.errors import immutable, invalid, not_supported, required, too_long
from allotment.model.validation.gotext import GoNamedString

_UID_LABEL: Final = "batch.kubernetes.io/controller-uid"
_NAME_LABEL: Final = "batch.kubernetes.io/job-name"
_COUNT_FIELDS: Final = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_COMPLETION_MODES: Final = ("NonIndexed", "Indexed")
_REPLACEMENT_POLICIES: Final = ("Failed", "TerminatingOrFailed")
_MAX_PER_INDEX: Final = 100_000
_MAX_FAILED_PER_INDEX: Final = 10_000
_MAX_MANAGER_LENGTH: Final = 63
_IMMUTABLE: Final = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
#: Scheduling directives of a suspended job are mutable (KEP-2926).
_SCHEDULING_DIRECTIVES: Final = ("nodeSelector", "tolerations", "schedulingGates")


def _with_selector(tree: Tree, write: Write) -> Tree:
    spec: Tree = {**(tree.get("spec") or {})}
    tree = {**tree, "spec": spec, "status": {}}
    metadata = tree["metadata"]
    template = spec.get("template") or {}
    template_metadata = template.get("metadata") or {}
    labels = template_metadata.get("labels")
    if not spec.get("manualSelector"):
        uid, name = metadata["uid"], metadata.get("name") or ""
        # Labels set by the user are kept; validation rejects them if they differ.
        labels = {"job-name": name, _NAME_LABEL: name, "controller-uid": uid, _UID_LABEL: uid, **(labels or {})}
        spec["template"] = {**template, "metadata": {**template_metadata, "labels": labels}}
        selector = spec.get("selector") or {}
        spec["selector"] = {**selector, "matchLabels": {_UID_LABEL: uid, **(selector.get("matchLabels") or {})}}
    # A job without labels gets those of its pod template, the generated ones included.
    own_labels = metadata.get("labels")
    if labels and (not own_labels or own_labels is template_metadata.get("labels")):
        tree["metadata"] = {**metadata, "labels": dict(labels)}
    return tree


def job_spec(spec: Tree, path: str) -> Errors:
    """Validate a JobSpec, except for its selector."""
    for name in _COUNT_FIELDS:
        yield from field_validation.non_negative(spec.get(name), f"{path}.{name}")
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    manager = spec.get("managedBy")
    if manager is not None:
        yield from field_validation.domain_prefixed_path(manager, f"{path}.managedBy")
        if len(manager) > _MAX_MANAGER_LENGTH:
            yield too_long(f"{path}.managedBy", _MAX_MANAGER_LENGTH)
    yield from _completion(spec, path)
    if spec.get("podFailurePolicy") is not None:
        yield from pod_failure_policy(spec, f"{path}.podFailurePolicy")
    if spec.get("successPolicy") is not None:
        yield from success_policy(spec, f"{path}.successPolicy")
    replacement = spec.get("podReplacementPolicy")
    allowed = _REPLACEMENT_POLICIES if spec.get("podFailurePolicy") is None else ("Failed",)
    if replacement is not None and replacement not in allowed:
        yield not_supported(f"{path}.podReplacementPolicy", GoNamedString(replacement), allowed)
    yield from _scheduling(spec, path)
    expected = spec.get("template") or {}
    yield from template(expected.get("spec") or {}, expected.get("metadata") or {}, f"{path}.template")
    restart, item_path = (expected.get("spec") or {}).get("restartPolicy") or "", f"{path}.template.spec.restartPolicy"
    if restart in ("", "Always"):
        yield required(item_path, 'valid values: "OnFailure", "Never"')
    elif restart not in ("OnFailure", "Never"):
        yield not_supported(item_path, GoNamedString(restart), ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and restart != "Never":
        yield invalid(item_path, GoNamedString(restart), 'only "Never" is supported when podFailurePolicy is specified')


def _completion(spec: Tree, path: str) -> Errors:
    mode, completions, parallelism = (spec.get(name) for name in ("completionMode", "completions", "parallelism"))
    per_index, failed = spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes")
    if mode is not None and mode not in _COMPLETION_MODES:
        yield not_supported(f"{path}.completionMode", GoNamedString(mode), _COMPLETION_MODES)
    if mode == "Indexed":
        if completions is None:
            yield required(f"{path}.completions", "when completion mode is Indexed")
        if parallelism is not None and parallelism > _MAX_PER_INDEX:
            detail = f"must be less than or equal to {_MAX_PER_INDEX} when completion mode is Indexed"
            yield invalid(f"{path}.parallelism", parallelism, detail)
        if failed is not None:
            if completions is not None and failed > completions:
                yield invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions")
            if failed > _MAX_PER_INDEX:
                yield invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MAX_PER_INDEX}")
        if completions is not None and completions > _MAX_PER_INDEX and per_index is not None:
            yield from _large_job(spec, path)
    if mode in (None, "NonIndexed"):
        for name, value in (("backoffLimitPerIndex", per_index), ("maxFailedIndexes", failed)):
            if value is not None:
                yield invalid(f"{path}.{name}", value, "requires indexed completion mode")


def _large_job(spec: Tree, path: str) -> Errors:
    detail = (
        f"must be less than or equal to {_MAX_FAILED_PER_INDEX} when completions are above {_MAX_PER_INDEX} and used "
        "with backoff limit per index"
    )
    if spec.get("maxFailedIndexes") is None:
        yield required(f"{path}.maxFailedIndexes", f"must be specified when completions is above {_MAX_PER_INDEX}")
    for name in ("parallelism", "maxFailedIndexes"):
        if (spec.get(name) or 0) > _MAX_FAILED_PER_INDEX:
            yield invalid(f"{path}.{name}", spec[name], detail)


def _selector_matches_template(spec: Tree) -> Errors:
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
    else:
        yield from field_validation.label_selector(selector, "spec.selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if field_validation.is_valid_selector(selector) and not field_validation.selector_matches(selector, labels or {}):
        yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def _generated_labels(tree: Tree) -> Errors:
    """The labels that the server generates must be unchanged."""
    spec, metadata = tree.get("spec") or {}, tree["metadata"]
    selector = spec.get("selector")
    if spec.get("manualSelector") or selector is None:
        return
    uid, name = metadata["uid"], metadata.get("name") or ""
    expected = {"controller-uid": uid, "job-name": name, _UID_LABEL: uid, _NAME_LABEL: name}
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    for key, value in expected.items():
        path = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            yield required(path, f"must be '{value}'")
        elif labels[key] != value:
            yield invalid(path, labels, f"must be '{value}'")
    if field_validation.is_valid_selector(selector) and not field_validation.selector_matches(selector, expected):
        yield invalid("spec.selector", field_validation.selector_value(selector), "`selector` not auto-generated")


def _new_job(tree: Tree, write: Write) -> Errors:
    return merged(_job(tree), declared_errors(tree, None, write.features))


def _scheduling(spec: Tree, path: str) -> Errors:
    """Validate the scheduling of a JobSpec where its types declare no rule (KEP-5547, alpha in 1.37).

    A policy without a variant is basic. Of two variants, which the declared rules refuse, the first one counts.
    """
    scheduling: Tree = spec.get("scheduling") or {}
    policy, mode = (scheduling.get(name) or {} for name in ("schedulingPolicy", "disruptionMode"))
    count = (policy.get("gang") or {}).get("minCount")
    parallelism = 1 if spec.get("parallelism") is None else spec["parallelism"]
    if count is not None and count > parallelism:
        detail = f"must not be greater than parallelism ({parallelism})"
        yield invalid(f"{path}.scheduling.schedulingPolicy.gang.minCount", count, detail)
    is_basic = policy.get("basic") is not None or policy.get("gang") is None
    if is_basic and mode.get("single") is None and mode.get("all") is not None:
        detail = "the disruptionMode `all` is not supported with the Basic scheduling policy"
        yield invalid(f"{path}.scheduling.disruptionMode", "", detail)


def _job(tree: Tree) -> ErrorIterator:
    spec = tree.get("spec") or {}
    yield from _generated_labels(tree)
    yield from job_spec(spec, "spec")
    yield from _selector_matches_template(spec)
    completions = spec.get("completions")
    if spec.get("completionMode") == "Indexed" and completions is not None and completions > 0:
        host = f"{tree['metadata'].get('name') or ''}-{completions - 1}"
        if names.label_problems(host):
            detail = f"will not able to create pod with invalid DNS label: {host}"
            yield invalid("metadata.name", tree["metadata"].get("name") or "", detail)


def _changed_job(new: Tree, old: Tree, write: Write) -> Errors:
    if write.subresource or new.get("spec") == old.get("spec"):
        return ()
    return merged(_job_update(new, old, write.features.kube), declared_errors(new, old, write.features))


def _job_update(new: Tree, old: Tree, release: str) -> ErrorIterator:
    after, before = new.get("spec") or {}, old.get("spec") or {}
    yield from job_spec(after, "spec")
    yield from _selector_matches_template(after)
    yield from _completions_update(after, before)
    if after.get("selector") != before.get("selector"):
        yield immutable("spec.selector", field_validation.selector_value(after.get("selector")))
    yield from _template_update(after, old, release)
    for name in _IMMUTABLE:
        if after.get(name) != before.get(name):
            yield immutable(f"spec.{name}", after.get(name))
    yield from _scheduling_update(after, before, "spec")


def _scheduling_update(after: Tree, before: Tree, path: str) -> Errors:
    """A Job keeps its kind of policy; the declared rules refuse all other changes but that of ``minCount``."""
    new, old = ((spec.get("scheduling") or {}).get("schedulingPolicy") for spec in (after, before))
    if new is not None and old is not None and (new.get("basic") is None) != (old.get("basic") is None):
        detail = (
            "the basic/gang policy variant is immutable after creation; only schedulingPolicy.gang.minCount may be "
            "updated"
        )
        yield invalid(f"{path}.scheduling.schedulingPolicy", None, detail)


def _completions_update(after: Tree, before: Tree) -> Errors:
    """Completions of an indexed job can change together with parallelism (KEP-3715)."""
    now = after.get("completions")
    if now == before.get("completions"):
        return
    if after.get("completionMode") != "Indexed":
        yield immutable("spec.completions", now)
    elif now is not None and now != after.get("parallelism"):
        yield invalid("spec.completions", now, "can only be modified in tandem with spec.parallelism")


def _template_update(after: Tree, old: Tree, release: str) -> Errors:
    """Scheduling directives and resources of a suspended job are mutable (KEP-5440)."""
    before = old.get("spec") or {}
    new_template, old_template = after.get("template") or {}, before.get("template") or {}
    if not _is_suspended_and_inactive(old):
        if new_template != old_template:
            yield immutable("spec.template", pod_template_value(new_template, release))
        return
    if _without_scheduling_directives(new_template.get("spec") or {}) != _without_scheduling_directives(
        old_template.get("spec") or {}
    ):
        yield immutable("spec.template.spec", pod_template_value(new_template, release)["Spec"])


def _is_suspended_and_inactive(tree: Tree) -> bool:
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    suspended = any(
        condition.get("type") == "Suspended" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
    return bool(spec.get("suspend")) and (not status.get("startTime") or suspended) and not status.get("active")


def _without_scheduling_directives(pod: Tree) -> Tree:
    remaining = {name: value for name, value in pod.items() if name not in _SCHEDULING_DIRECTIVES}
    affinity = {
        name: value for name, value in (remaining.pop("affinity", None) or {}).items() if name != "nodeAffinity"
    }
    if affinity:
        remaining["affinity"] = affinity
    for part in ("containers", "initContainers"):
        if remaining.get(part):
            remaining[part] = [
                {name: value for name, value in container.items() if name != "resources"}
                for container in remaining[part]
            ]
    return remaining


RULES: Final[Mapping[str, KindRules]] = {
    "jobs.batch": KindRules(
        prepare_create=_with_selector, validate_create=_new_job, validate_update=_changed_job, has_generation=True
    )
}
