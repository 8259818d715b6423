"""Creates the Workload and the PodGroup of a Job, and finds the PodGroup of its pods (WorkloadWithJob, KEP-5547).

A Job without an owner gets both objects, also without ``spec.scheduling``, unless its template names a PodGroup. A Job
that another controller owns gets a PodGroup only if that controller delegates it. Objects are created before the Job's
first pod and never later, so Jobs that started without the feature gate stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext
from allotment.cluster.resources import POD_GROUPS, WORKLOADS
from allotment.controllers.conditions import condition_of
from allotment.controllers.job_workloads import TEMPLATE_ANNOTATION, min_count_of, pod_group_of, workload_of
from allotment.controllers.release import controller_release
from allotment.model.features import Features
from allotment.model.trees import Tree

_Reference = tuple[str, str, str, str]


class UnsupportedWorkload(Exception):
    """Raised if the Workload of a Job does not have exactly one template."""


def are_job_groups_enabled(features: Features) -> bool:
    """Whether Jobs get Workloads and PodGroups."""
    return features.enabled("WorkloadWithJob") and controller_release(features).job_groups


class JobScheduling:
    """The Workloads and PodGroups of Jobs."""

    def __init__(self, context: ProgramContext) -> None:
        self._client = context.client_for("job-controller")
        self._recorder = context.recorder("job-controller")
        self._workloads = context.caches.trees(WORKLOADS)
        self._groups = context.caches.trees(POD_GROUPS)
        self._workloads_of = self._workloads.index("controller of a workload", _controller_of_workload)
        self._groups_of = self._groups.index("workload of a group", _workload_of_group)

    async def synced(self) -> None:
        """Wait until the existing objects are known."""
        await self._workloads.synced.wait()
        await self._groups.synced.wait()

    async def group_of(self, job: CachedItem[Any], pods: Sequence[CachedItem[Any]]) -> str:
        """The name of the PodGroup of a Job's pods, created if necessary; empty if they have none.

        ``pods``: the Job's pods. Raises StatusError, UnsupportedWorkload.
        """
        if (job.spec["template"].get("spec") or {}).get("schedulingGroup"):
            return ""
        may_create = _is_new(job, pods)
        if job.controller is None:
            return await self._own_group(job, may_create)
        if TEMPLATE_ANNOTATION in (job.metadata.get("annotations") or {}):
            return await self._delegated_group(job, may_create)
        return ""

    async def _own_group(self, job: CachedItem[Any], may_create: bool) -> str:
        known = _controlled(self._workloads_of[job.namespace, "batch", "Job", job.name], job)
        if len(known) > 1 or (not known and not may_create):
            return ""
        workload = known[0] if known else await self._create_workload(job)
        templates: Sequence[Tree] = workload.spec.get("podGroupTemplates") or ()
        if len(templates) != 1:
            raise UnsupportedWorkload(
                f"workload {workload.namespace}/{workload.name} for job {job.namespace}/{job.name} has"
                f" {len(templates)} PodGroupTemplates, want exactly 1"
            )
        groups = _controlled(self._groups_of[workload.key], job)
        if len(groups) > 1 or (not groups and not may_create):
            return ""
        group = groups[0] if groups else await self._create_group(job, workload, templates[0], workload_owns=True)
        count = min_count_of(workload_of(job)["spec"]["podGroupTemplates"][0])
        if count is not None:
            await self._resize_workload(workload, templates[0], count)
            await self._resize_group(group, count)
        return group.name

    async def _delegated_group(self, job: CachedItem[Any], may_create: bool) -> str:
        """The PodGroup from a template of the parent's Workload; empty if the parent has none (yet)."""
        parent = job.controller
        assert parent is not None
        api_group = parent["apiVersion"].rpartition("/")[0]
        workloads = sorted(
            self._workloads_of[job.namespace, api_group, parent["kind"], parent["name"]], key=lambda item: item.name
        )
        name = job.metadata["annotations"][TEMPLATE_ANNOTATION]
        if not workloads:
            return ""
        templates = workloads[0].spec.get("podGroupTemplates") or ()
        template = next((each for each in templates if name in ("", each["name"])), None)
        if template is None:
            return ""
        groups = _controlled(self._groups_of[workloads[0].key], job)
        if not groups and not may_create:
            return ""
        group = groups[0] if groups else await self._create_group(job, workloads[0], template, workload_owns=False)
        if (count := min_count_of(template)) is not None:
            await self._resize_group(group, count)
        return group.name

    async def _create_workload(self, job: CachedItem[Any]) -> CachedItem[Any]:
        try:
            made = await self._client.create(WORKLOADS, workload_of(job), job.namespace)
        except StatusError as error:
            text = f"Failed to create Workload for Job {job.name}: {error}"
            self._recorder.event(job.tree, "Warning", "FailedWorkloadCreate", text)
            raise
        self._workloads.record_write(made)
        text = f"Created Workload {made['metadata']['name']} for Job {job.name}"
        self._recorder.event(job.tree, "Normal", "WorkloadCreated", text)
        return CachedItem(made)

    async def _create_group(
        self, job: CachedItem[Any], workload: CachedItem[Any], template: Tree, *, workload_owns: bool
    ) -> CachedItem[Any]:
        group = pod_group_of(job, workload, template, workload_owns=workload_owns)
        made = await self._client.create(POD_GROUPS, group, job.namespace)
        self._groups.record_write(made)
        text = f"Created PodGroup {made['metadata']['name']} for Job {job.name}"
        self._recorder.event(job.tree, "Normal", "PodGroupCreated", text)
        return CachedItem(made)

    # --- changed gangs ----------------------------------------------------------------------------------------------

    async def _resize_workload(self, workload: CachedItem[Any], template: Tree, count: int) -> None:
        if min_count_of(template) in (None, count):
            return
        changed = {"name": template["name"], "schedulingPolicy": {"gang": {"minCount": count}}}
        patch = {"spec": {"podGroupTemplates": [changed]}}
        self._workloads.record_write(
            await self._client.patch(WORKLOADS, workload.name, patch, workload.namespace, kind="strategic")
        )

    async def _resize_group(self, group: CachedItem[Any], count: int) -> None:
        if min_count_of(group.spec) in (None, count):
            return
        patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": count}}}}
        self._groups.record_write(
            await self._client.patch(POD_GROUPS, group.name, patch, group.namespace, kind="strategic")
        )


def _is_new(job: CachedItem[Any], pods: Sequence[CachedItem[Any]]) -> bool:
    """Whether the Job has never started."""
    status = job.status
    started = status.get("startTime") or status.get("succeeded") or status.get("failed")
    return not (pods or started or job.deleting or condition_of(status.get("conditions"), "Suspended"))


def _controlled(items: Iterable[CachedItem[Any]], job: CachedItem[Any]) -> list[CachedItem[Any]]:
    """The objects that the Job's controller created; those of users are not managed."""
    return [item for item in items if item.controller is not None and item.controller["uid"] == job.uid]


def _controller_of_workload(workload: CachedItem[Any]) -> Iterator[_Reference]:
    if reference := workload.spec.get("controllerRef"):
        yield workload.namespace, reference.get("apiGroup") or "", reference["kind"], reference["name"]


def _workload_of_group(group: CachedItem[Any]) -> Iterator[tuple[str, str]]:
    if name := (group.spec.get("workloadRef") or {}).get("workloadName"):
        yield group.namespace, name
