"""CronJobs: validation of schedule, time zone and job template."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from zoneinfo import available_timezones

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.jobs import job_spec
from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.model.trees import Tree
from allotment.model.validation.declarative import declared_errors, merged
from allotment.model.validation.errors import Errors as ErrorIterator
from allotment.model.validation.errors import invalid, not_supported, required
from allotment.model.validation.gotext import GoNamedString

_MACROS: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_matches_every: Final = re.compile(r"@every ([0-9.]+(ns|us|µs|ms|s|m|h))+").fullmatch
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_POLICIES: Final = ("Allow", "Forbid", "Replace")
_matches_zone_part: Final = re.compile(r"[A-Za-z.\-_0-9+]{1,14}").fullmatch
#: Minimum, maximum and names of each field.
_FIELDS: Final[Sequence[tuple[int, int, Sequence[str]]]] = (
    (0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 6, _DAYS),
)  # fmt: skip


def schedule_problem(text: str) -> str:
    """The error of a schedule; empty if it is valid.

    >>> schedule_problem("*/5 * * * *"), schedule_problem("* * *")
    ('', 'expected exactly 5 fields, found 3: [* * *]')
    """
    if text.startswith("@"):
        return "" if text in _MACROS or _matches_every(text) else f"unrecognized descriptor: {text}"
    fields = text.split()
    if len(fields) != len(_FIELDS):
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    for field, (minimum, maximum, names) in zip(fields, _FIELDS, strict=True):
        for part in field.split(","):
            problem = _part_problem(part, minimum, maximum, names)
            if problem:
                return problem
    return ""


def _part_problem(part: str, minimum: int, maximum: int, names: Sequence[str]) -> str:
    span, slash, step = part.partition("/")
    low, dash, high = span.partition("-")
    first = minimum if low in ("*", "?") else _parse_number(low, names, minimum)
    last = maximum if low in ("*", "?") else _parse_number(high, names, minimum) if dash else first
    if first is None or last is None:
        wrong = low if first is None else high
        return f'failed to parse int from {wrong}: strconv.Atoi: parsing "{wrong}": invalid syntax'
    if slash and (not step.isdigit() or int(step) == 0):
        return f"step of range should be a positive number: {part}"
    if first < minimum:
        return f"beginning of range ({first}) below minimum ({minimum}): {part}"
    if last > maximum:
        return f"end of range ({last}) above maximum ({maximum}): {part}"
    if first > last:
        return f"beginning of range ({first}) beyond end of range ({last}): {part}"
    return ""


def _parse_number(text: str, names: Sequence[str], minimum: int) -> int | None:
    if text.lower() in names:
        return names.index(text.lower()) + minimum
    return int(text) if text.isdigit() else None


def _cron_job_spec(spec: Tree, old: Tree | None = None) -> Errors:
    schedule = spec.get("schedule") or ""
    if not schedule:
        yield required("spec.schedule")
    else:
        yield from _validate_schedule(
            schedule, spec.get("timeZone"), allows_zone="TZ" in ((old or {}).get("schedule") or "")
        )
    yield from field_validation.non_negative(spec.get("startingDeadlineSeconds"), "spec.startingDeadlineSeconds")
    zone = spec.get("timeZone")
    if zone is not None and (old is None or old.get("timeZone") != zone):
        yield from _time_zone(zone)
    policy = spec.get("concurrencyPolicy") or ""
    if policy not in _POLICIES:
        path = "spec.concurrencyPolicy"
        yield not_supported(path, GoNamedString(policy), _POLICIES) if policy else required(path)
    inner = (spec.get("jobTemplate") or {}).get("spec") or {}
    yield from job_spec(inner, "spec.jobTemplate.spec")
    if inner.get("selector") is not None:
        yield invalid("spec.jobTemplate.spec.selector", inner["selector"], "`selector` will be auto-generated")
    if inner.get("manualSelector"):
        yield not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false"))
    for name in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        yield from field_validation.non_negative(spec.get(name), f"spec.{name}")


def _validate_schedule(schedule: str, zone: str | None, *, allows_zone: bool) -> Errors:
    path, spec = "spec.schedule", schedule
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        _, _, spec = schedule.partition(" ")
    if problem := schedule_problem(spec.strip()):
        yield invalid(path, schedule, problem)
    if "TZ" not in schedule:
        return
    if not allows_zone:
        yield invalid(path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
    elif zone is not None:
        yield invalid(path, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")


def _time_zone(zone: str) -> Errors:
    path = "spec.timeZone"
    if not zone:
        yield invalid(path, zone, "timeZone must be nil or non-empty string")
        return
    parts = zone.split("/")
    if any(part in (".", "..") or part.startswith("-") or not _matches_zone_part(part) for part in parts):
        yield invalid(path, zone, f"unknown time zone {zone}")
        return
    if zone.lower() == "local":
        explicit = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield invalid(path, zone, explicit)
    if zone not in ("Local", *available_timezones()):
        yield invalid(path, zone, f"unknown time zone {zone}")


def _new_cron_job(tree: Tree, write: Write) -> Errors:
    return merged(_cron_job(tree), declared_errors(tree, None, write.features))


def _cron_job(tree: Tree) -> ErrorIterator:
    yield from _cron_job_spec(tree.get("spec") or {})
    name = tree["metadata"].get("name") or ""
    if len(name) > 52:  # the controller appends a timestamp to job names
        yield invalid("metadata.name", name, "must be no more than 52 characters")


def _changed_cron_job(new: Tree, old: Tree, write: Write) -> Errors:
    if write.subresource or new.get("spec") == old.get("spec"):
        return ()
    coded = _cron_job_spec(new.get("spec") or {}, old.get("spec") or {})
    return merged(coded, declared_errors(new, old, write.features))


RULES: Final[Mapping[str, KindRules]] = {
    "cronjobs.batch": KindRules(validate_create=_new_cron_job, validate_update=_changed_cron_job, has_generation=True)
}
