"""Which pods start together or not at all.

Kubernetes has PodGroups for it (KEP-4671, alpha); before them every batch scheduler had a label of its own. A plan that
bought machines for half of a gang would pay for pods that wait for the other half.
"""

from __future__ import annotations

from typing import Final

from allotment.model.core import Pod

#: Labels and annotations by which schedulers know a gang. Its name is unique in a namespace.
MARKS: Final = (
    "allotment.dev/gang",
    "scheduling.x-k8s.io/pod-group",  # the coscheduling plugin
    "pod-group.scheduling.sigs.k8s.io",  # the same, before
    "scheduling.k8s.io/group-name",  # Volcano, an annotation
    "kueue.x-k8s.io/pod-group-name",
)


def gang_of(pod: Pod) -> str:
    """The gang that a pod is in, as ``namespace/name``; empty for none.

    >>> from allotment.model.meta import ObjectMeta
    >>> gang_of(Pod(metadata=ObjectMeta(name="a-0", namespace="ml", labels={"allotment.dev/gang": "a"})))
    'ml/a'
    """
    name = ""
    if pod.spec.scheduling_group is not None:
        name = pod.spec.scheduling_group.pod_group_name or ""
    if not name:
        marked = (pod.metadata.labels.get(mark) or pod.metadata.annotations.get(mark) for mark in MARKS)
        name = next((found for found in marked if found), "")
    return f"{pod.metadata.namespace}/{name}" if name else ""
