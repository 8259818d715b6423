"""Jobs and CronJobs: a generated selector, a template that ends, a schedule that can be read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from zoneinfo import available_timezones

from allotment.apiserver.kinds import checks
from allotment.apiserver.kinds.kind import Errors, Rules, Write
from allotment.apiserver.kinds.pod_spec import template
from allotment.model.validation.errors import immutable, invalid, not_supported, required

Tree = dict[str, Any]

_UID: Final = "batch.kubernetes.io/controller-uid"
_NAME: Final = "batch.kubernetes.io/job-name"
_COUNTS: Final = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
                  "backoffLimitPerIndex", "maxFailedIndexes")  # fmt: skip
_MOST_INDEXES: Final = 100_000
#: Where a suspended job's pods may go can still change (KEP-2926).
_DIRECTIVES: Final = ("nodeSelector", "tolerations", "affinity", "schedulingGates")


def _with_selector(tree: Tree, write: Write) -> Tree:
    spec: Tree = {**(tree.get("spec") or {})}
    tree = {**tree, "spec": spec, "status": {}}
    if not spec.get("manualSelector"):
        meta = tree["metadata"]
        generated = {_UID: meta["uid"], _NAME: meta["name"], "controller-uid": meta["uid"], "job-name": meta["name"]}
        wanted = spec.get("template") or {}
        inner = wanted.get("metadata") or {}
        labels = {**generated, **(inner.get("labels") or {}), **generated}
        spec["template"] = {**wanted, "metadata": {**inner, "labels": labels}}
        selector = spec.get("selector") or {}
        spec["selector"] = {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), _UID: meta["uid"]}}
    # As decoding the stored object would do: a job without labels shows those of its pods.
    shown = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if shown and not tree["metadata"].get("labels"):
        tree["metadata"] = {**tree["metadata"], "labels": dict(shown)}
    return tree


def _job_spec(spec: Tree, path: str) -> Errors:
    for name in _COUNTS:
        yield from checks.non_negative(spec.get(name), f"{path}.{name}")
    mode = spec.get("completionMode")
    if mode is not None:
        if mode not in ("NonIndexed", "Indexed"):
            yield not_supported(f"{path}.completionMode", mode, ("Indexed", "NonIndexed"))
        if mode == "Indexed":
            if spec.get("completions") is None:
                yield required(f"{path}.completions", "when completion mode is Indexed")
            if (spec.get("parallelism") or 0) > _MOST_INDEXES:
                detail = f"must be less than or equal to {_MOST_INDEXES} when completion mode is Indexed"
                yield invalid(f"{path}.parallelism", spec["parallelism"], detail)
    if spec.get("backoffLimitPerIndex") is not None and mode != "Indexed":
        yield invalid(f"{path}.backoffLimitPerIndex", spec["backoffLimitPerIndex"], "requires indexed completion mode")
    wanted = spec.get("template") or {}
    yield from template(wanted.get("spec") or {}, wanted.get("metadata") or {}, f"{path}.template")
    restart = (wanted.get("spec") or {}).get("restartPolicy")
    if restart not in ("OnFailure", "Never"):
        yield required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    if spec.get("podFailurePolicy") is not None and restart != "Never":
        yield invalid(
            f"{path}.template.spec.restartPolicy",
            restart,
            'only "Never" is supported when podFailurePolicy is specified',
        )


def _job(tree: Tree, write: Write) -> Errors:
    spec = tree.get("spec") or {}
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
    else:
        yield from checks.label_selector(selector, "spec.selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if selector is not None and not checks.matches(selector, labels):
        yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    yield from _job_spec(spec, "spec")


def _job_update(new: Tree, old: Tree, write: Write) -> Errors:
    after, before = new.get("spec") or {}, old.get("spec") or {}
    if write.subresource or after == before:
        return
    yield from _job_spec(after, "spec")
    if after.get("completions") != before.get("completions") and not _elastic(after):
        yield immutable("spec.completions", after.get("completions"))
    for name in ("selector", "template", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy"):
        now, was = after.get(name), before.get(name)
        if name == "template" and before.get("suspend") and not (old.get("status") or {}).get("startTime"):
            now, was = _undirected(now or {}), _undirected(was or {})
        if now != was:
            yield immutable(f"spec.{name}", after.get(name))


def _elastic(spec: Tree) -> bool:
    """An indexed job may grow and shrink if both numbers stay equal (KEP-3715)."""
    return spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")


def _undirected(wanted: Tree) -> Tree:
    pod = {name: value for name, value in (wanted.get("spec") or {}).items() if name not in _DIRECTIVES}
    meta = {k: v for k, v in (wanted.get("metadata") or {}).items() if k not in ("labels", "annotations")}
    return {**wanted, "metadata": meta, "spec": pod}


# --- CronJobs --------------------------------------------------------------------------------------------------------

_MACROS: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_EVERY: Final = re.compile(r"@every ([0-9.]+(ns|us|µs|ms|s|m|h))+").fullmatch
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
#: Least, most, names.
_PARTS: Final[Sequence[tuple[int, int, Sequence[str]]]] = (
    (0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 6, _DAYS),
)  # fmt: skip


def schedule_problem(text: str) -> str:
    """Why a schedule cannot be read; empty if it can.

    >>> schedule_problem("*/5 * * * *"), schedule_problem("* * *")
    ('', 'expected exactly 5 fields, found 3: [* * *]')
    """
    if text.startswith("@"):
        return "" if text in _MACROS or _EVERY(text) else f"unrecognized descriptor: {text}"
    fields = text.split()
    if len(fields) != len(_PARTS):
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    for field, (least, most, words) in zip(fields, _PARTS, strict=True):
        for part in field.split(","):
            problem = _part_problem(part, least, most, words)
            if problem:
                return problem
    return ""


def _part_problem(part: str, least: int, most: int, words: Sequence[str]) -> str:
    span, slash, step = part.partition("/")
    low, dash, high = span.partition("-")
    first = least if low in ("*", "?") else _number(low, words, least)
    last = most if low in ("*", "?") else _number(high, words, least) if dash else first
    if first is None or last is None:
        wrong = low if first is None else high
        return f'failed to parse int from {wrong}: strconv.Atoi: parsing "{wrong}": invalid syntax'
    if slash and (not step.isdigit() or int(step) == 0):
        return f"step of range should be a positive number: {part}"
    if first < least:
        return f"beginning of range ({first}) below minimum ({least}): {part}"
    if last > most:
        return f"end of range ({last}) above maximum ({most}): {part}"
    if first > last:
        return f"beginning of range ({first}) beyond end of range ({last}): {part}"
    return ""


def _number(text: str, words: Sequence[str], least: int) -> int | None:
    if text.lower() in words:
        return words.index(text.lower()) + least
    return int(text) if text.isdigit() else None


def _cron_job_spec(spec: Tree) -> Errors:
    schedule = spec.get("schedule") or ""
    if not schedule:
        yield required("spec.schedule")
    else:
        if "TZ" in schedule:
            yield invalid("spec.schedule", schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
        elif problem := schedule_problem(schedule):
            yield invalid("spec.schedule", schedule, problem)
    yield from checks.non_negative(spec.get("startingDeadlineSeconds"), "spec.startingDeadlineSeconds")
    zone = spec.get("timeZone")
    if zone is not None:
        if not zone:
            yield invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")
        elif zone.lower() == "local":
            yield invalid(
                "spec.timeZone",
                zone,
                "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
            )
        elif zone not in available_timezones():
            yield invalid("spec.timeZone", zone, f"unknown time zone {zone}")
    policies = ("Allow", "Forbid", "Replace")
    if spec.get("concurrencyPolicy") not in policies:
        yield from checks.choice(spec.get("concurrencyPolicy"), "spec.concurrencyPolicy", policies)
    inner = (spec.get("jobTemplate") or {}).get("spec") or {}
    if inner.get("manualSelector"):
        yield not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false"))
    yield from _job_spec(inner, "spec.jobTemplate.spec")
    for name in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        yield from checks.non_negative(spec.get(name), f"spec.{name}")


def _cron_job(tree: Tree, write: Write) -> Errors:
    yield from _cron_job_spec(tree.get("spec") or {})
    name = tree["metadata"].get("name") or ""
    if len(name) > 52:  # the controller appends a time
        yield invalid("metadata.name", name, "must be no more than 52 characters")


def _cron_job_update(new: Tree, old: Tree, write: Write) -> Errors:
    if not write.subresource and new.get("spec") != old.get("spec"):
        yield from _cron_job_spec(new.get("spec") or {})


RULES: Final[Mapping[str, Rules]] = {
    "jobs.batch": Rules(
        prepare_create=_with_selector, validate_create=_job, validate_update=_job_update, has_generation=True
    ),
    "cronjobs.batch": Rules(validate_create=_cron_job, validate_update=_cron_job_update, has_generation=True),
}
