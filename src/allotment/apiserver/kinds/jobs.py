"""Jobs: a generated selector, a template that ends, and what of both may still change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.job_policies import pod_failure_policy, success_policy
from allotment.apiserver.kinds.kind import Errors, Rules, Write
from allotment.apiserver.kinds.pod_spec import template
from allotment.apiserver.kinds.pod_spec_diff import pod_template_value
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import immutable, invalid, not_supported, required, too_long
from allotment.model.validation.gotext import GoNamedString

_UID: Final = "batch.kubernetes.io/controller-uid"
_NAME: Final = "batch.kubernetes.io/job-name"
_COUNTS: Final = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
                  "backoffLimitPerIndex", "maxFailedIndexes")  # fmt: skip
_MODES: Final = ("NonIndexed", "Indexed")
_REPLACEMENTS: Final = ("Failed", "TerminatingOrFailed")
_MANY: Final = 100_000
_FEW: Final = 10_000
_MOST_MANAGER: Final = 63
_FIXED: Final = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
#: Where a suspended job's pods may go can still change (KEP-2926).
_DIRECTIVES: Final = ("nodeSelector", "tolerations", "schedulingGates")


def _with_selector(tree: Tree, write: Write) -> Tree:
    spec: Tree = {**(tree.get("spec") or {})}
    tree = {**tree, "spec": spec, "status": {}}
    meta = tree["metadata"]
    wanted = spec.get("template") or {}
    inner = wanted.get("metadata") or {}
    labels = inner.get("labels")
    if not spec.get("manualSelector"):
        uid, name = meta["uid"], meta.get("name") or ""
        # What users give stands, and is refused if it is not this.
        labels = {"job-name": name, _NAME: name, "controller-uid": uid, _UID: uid, **(labels or {})}
        spec["template"] = {**wanted, "metadata": {**inner, "labels": labels}}
        selector = spec.get("selector") or {}
        spec["selector"] = {**selector, "matchLabels": {_UID: uid, **(selector.get("matchLabels") or {})}}
    # A job without labels shares those of its pods, generated ones and all.
    shown = meta.get("labels")
    if labels and (not shown or shown is inner.get("labels")):
        tree["metadata"] = {**meta, "labels": dict(labels)}
    return tree


def job_spec(spec: Tree, path: str) -> Errors:
    """A JobSpec, but for its selector."""
    for name in _COUNTS:
        yield from field_validation.non_negative(spec.get(name), f"{path}.{name}")
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    manager = spec.get("managedBy")
    if manager is not None:
        yield from field_validation.domain_prefixed_path(manager, f"{path}.managedBy")
        if len(manager) > _MOST_MANAGER:
            yield too_long(f"{path}.managedBy", _MOST_MANAGER)
    yield from _completion(spec, path)
    if spec.get("podFailurePolicy") is not None:
        yield from pod_failure_policy(spec, f"{path}.podFailurePolicy")
    if spec.get("successPolicy") is not None:
        yield from success_policy(spec, f"{path}.successPolicy")
    replacement = spec.get("podReplacementPolicy")
    allowed = _REPLACEMENTS if spec.get("podFailurePolicy") is None else ("Failed",)
    if replacement is not None and replacement not in allowed:
        yield not_supported(f"{path}.podReplacementPolicy", GoNamedString(replacement), allowed)
    wanted = spec.get("template") or {}
    yield from template(wanted.get("spec") or {}, wanted.get("metadata") or {}, f"{path}.template")
    restart, at = (wanted.get("spec") or {}).get("restartPolicy") or "", f"{path}.template.spec.restartPolicy"
    if restart in ("", "Always"):
        yield required(at, 'valid values: "OnFailure", "Never"')
    elif restart not in ("OnFailure", "Never"):
        yield not_supported(at, GoNamedString(restart), ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and restart != "Never":
        yield invalid(at, GoNamedString(restart), 'only "Never" is supported when podFailurePolicy is specified')


def _completion(spec: Tree, path: str) -> Errors:
    mode, completions, parallelism = (spec.get(name) for name in ("completionMode", "completions", "parallelism"))
    per_index, failed = spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes")
    if mode is not None and mode not in _MODES:
        yield not_supported(f"{path}.completionMode", GoNamedString(mode), _MODES)
    if mode == "Indexed":
        if completions is None:
            yield required(f"{path}.completions", "when completion mode is Indexed")
        if parallelism is not None and parallelism > _MANY:
            detail = f"must be less than or equal to {_MANY} when completion mode is Indexed"
            yield invalid(f"{path}.parallelism", parallelism, detail)
        if failed is not None:
            if completions is not None and failed > completions:
                yield invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions")
            if failed > _MANY:
                yield invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MANY}")
        if completions is not None and completions > _MANY and per_index is not None:
            yield from _very_many(spec, path)
    if mode in (None, "NonIndexed"):
        for name, value in (("backoffLimitPerIndex", per_index), ("maxFailedIndexes", failed)):
            if value is not None:
                yield invalid(f"{path}.{name}", value, "requires indexed completion mode")


def _very_many(spec: Tree, path: str) -> Errors:
    detail = (
        f"must be less than or equal to {_FEW} when completions are above {_MANY} and used with backoff limit per index"
    )
    if spec.get("maxFailedIndexes") is None:
        yield required(f"{path}.maxFailedIndexes", f"must be specified when completions is above {_MANY}")
    for name in ("parallelism", "maxFailedIndexes"):
        if (spec.get(name) or 0) > _FEW:
            yield invalid(f"{path}.{name}", spec[name], detail)


def _selected(spec: Tree) -> Errors:
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
    else:
        yield from field_validation.label_selector(selector, "spec.selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if field_validation.readable(selector) and not field_validation.matches(selector, labels or {}):
        yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def _generated(tree: Tree) -> Errors:
    """Whether labels that the server chooses are as it chose them."""
    spec, meta = tree.get("spec") or {}, tree["metadata"]
    selector = spec.get("selector")
    if spec.get("manualSelector") or selector is None:
        return
    uid, name = meta["uid"], meta.get("name") or ""
    wanted = {"controller-uid": uid, "job-name": name, _UID: uid, _NAME: name}
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    for key, value in wanted.items():
        at = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            yield required(at, f"must be '{value}'")
        elif labels[key] != value:
            yield invalid(at, labels, f"must be '{value}'")
    if field_validation.readable(selector) and not field_validation.matches(selector, wanted):
        yield invalid("spec.selector", field_validation.shown(selector), "`selector` not auto-generated")


def _job(tree: Tree, write: Write) -> Errors:
    spec = tree.get("spec") or {}
    yield from _generated(tree)
    yield from job_spec(spec, "spec")
    yield from _selected(spec)
    completions = spec.get("completions")
    if spec.get("completionMode") == "Indexed" and completions is not None and completions > 0:
        host = f"{tree['metadata'].get('name') or ''}-{completions - 1}"
        if names.label_problems(host):
            detail = f"will not able to create pod with invalid DNS label: {host}"
            yield invalid("metadata.name", tree["metadata"].get("name") or "", detail)


def _job_update(new: Tree, old: Tree, write: Write) -> Errors:
    after, before = new.get("spec") or {}, old.get("spec") or {}
    if write.subresource or after == before:
        return
    yield from job_spec(after, "spec")
    yield from _selected(after)
    yield from _completions_kept(after, before)
    if after.get("selector") != before.get("selector"):
        yield immutable("spec.selector", field_validation.shown(after.get("selector")))
    yield from _template_kept(after, old)
    for name in _FIXED:
        if after.get(name) != before.get(name):
            yield immutable(f"spec.{name}", after.get(name))


def _completions_kept(after: Tree, before: Tree) -> Errors:
    """An indexed job may grow and shrink if both numbers stay equal (KEP-3715)."""
    now = after.get("completions")
    if now == before.get("completions"):
        return
    if after.get("completionMode") != "Indexed":
        yield immutable("spec.completions", now)
    elif now is not None and now != after.get("parallelism"):
        yield invalid("spec.completions", now, "can only be modified in tandem with spec.parallelism")


def _template_kept(after: Tree, old: Tree) -> Errors:
    """The pods of a job that waits may still be told where to run, and what they get (KEP-5440)."""
    before = old.get("spec") or {}
    now, was = after.get("template") or {}, before.get("template") or {}
    if not _waits(old):
        if now != was:
            yield immutable("spec.template", pod_template_value(now))
        return
    if _undirected(now.get("spec") or {}) != _undirected(was.get("spec") or {}):
        yield immutable("spec.template.spec", pod_template_value(now)["Spec"])


def _waits(tree: Tree) -> bool:
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    suspended = any(
        one.get("type") == "Suspended" and one.get("status") == "True" for one in status.get("conditions") or ()
    )
    return bool(spec.get("suspend")) and (not status.get("startTime") or suspended) and not status.get("active")


def _undirected(pod: Tree) -> Tree:
    kept = {name: value for name, value in pod.items() if name not in _DIRECTIVES}
    affinity = {name: value for name, value in (kept.pop("affinity", None) or {}).items() if name != "nodeAffinity"}
    if affinity:
        kept["affinity"] = affinity
    for part in ("containers", "initContainers"):
        if kept.get(part):
            kept[part] = [{name: value for name, value in one.items() if name != "resources"} for one in kept[part]]
    return kept


RULES: Final[Mapping[str, Rules]] = {
    "jobs.batch": Rules(
        prepare_create=_with_selector, validate_create=_job, validate_update=_job_update, has_generation=True
    )
}
