"""Finds the container of a stream request and checks its state, with upstream's error messages."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.apiserver.streams.kubelets import Kubelets
from allotment.cluster.errors import StatusError
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation.errors import failure_status

_KINDS = ("initContainers", "containers", "ephemeralContainers")


def bad_request(message: str) -> StatusError:
    """A 400 error, which the kubelet and the API server use for nearly all cases here."""
    return StatusError(failure_status(400, "BadRequest", message))


def name_of(pod: Tree) -> str:
    """The pod's name."""
    return str(pod["metadata"]["name"])


def container_named(pod: Tree, name: str) -> str:
    """The container named in a request; if it names none, the pod's only container."""
    spec = pod.get("spec") or {}
    names = [str(container.get("name")) for kind in _KINDS for container in spec.get(kind) or ()]
    if name:
        if name not in names:
            raise bad_request(f"container {name} is not valid for pod {name_of(pod)}")
        return name
    containers = spec.get("containers") or []
    if len(containers) == 1:
        return str(containers[0].get("name"))
    choice = f", choose one of: [{' '.join(names)}]" if containers else ""
    raise bad_request(f"a container name must be specified for pod {name_of(pod)}{choice}")


def is_bound(pod: Tree) -> bool:
    """Whether the pod is bound to a node."""
    return bool((pod.get("spec") or {}).get("nodeName"))


def kubelets_for(pod: Tree, kubelets: Kubelets | None) -> Kubelets:
    """The kubelets, if the pod has a node. Raises StatusError otherwise."""
    if not is_bound(pod):
        raise bad_request(f"pod {name_of(pod)} does not have a host assigned")
    if kubelets is None:
        message = f"no kubelet answers for node {pod['spec']['nodeName']}"
        raise StatusError(failure_status(503, "ServiceUnavailable", message))
    return kubelets


def _states(pod: Tree) -> Iterator[Tree]:
    status = pod.get("status") or {}
    for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        yield from status.get(kind) or ()


def check_log_available(pod: Tree, container: str, *, previous: bool) -> None:
    """Raise StatusError if the container has no log yet, or no log of a previous run."""
    named = f"container {quote(container)} in pod {quote(name_of(pod))}"
    container_status = next((status for status in _states(pod) if status.get("name") == container), None)
    if container_status is None:
        raise bad_request(f"{named} is not available")
    state, last = container_status.get("state") or {}, container_status.get("lastState") or {}
    if previous:
        if not last.get("terminated"):
            raise bad_request(f"previous terminated {named} not found")
    elif state.get("waiting") is not None and not last.get("terminated"):
        reason = state["waiting"].get("reason", "")
        raise bad_request(f"{named} is waiting to start: {_WAITING.get(reason, reason)}")


_WAITING = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}


def is_running(pod: Tree, container: str) -> bool:
    """Whether a container is running according to its status."""
    return any(s.get("name") == container and (s.get("state") or {}).get("running") is not None for s in _states(pod))
