"""Invalid image names, and images that cannot be pulled, with the texts of kubelet and containerd."""

from __future__ import annotations

import pytest

from allotment.cluster.resources import PODS
from allotment.model.trees import Tree
from allotment.node.image_names import check_image, name_problem
from allotment.node.runtimes.runtime import NotStarted
from tests.unit.cluster import idle
from tests.unit.node.world import World, world

UNKNOWN = "invalid.registry.k8s.io/invalid/alpine:3.1"
NO_HOST = (
    f'rpc error: code = Unknown desc = failed to pull and unpack image "{UNKNOWN}": failed to resolve reference '
    f'"{UNKNOWN}": failed to do request: Head "https://invalid.registry.k8s.io/v2/invalid/alpine/manifests/3.1": dial '
    "tcp: lookup invalid.registry.k8s.io: no such host"
)
INVALID = 'couldn\'t parse image name "INVALID IMAGE": invalid reference format'


@pytest.mark.parametrize(
    "name",
    [
        "i", "busybox:1.36", "library/busybox", "localhost:5000/app", "registry.example:443/a/b_c/d-e:V1.2",
        "Registry.example/app", "a@sha256:" + "0" * 64, "registry.invalid/app", "[::1]:5000/app",
    ],
)  # fmt: skip
def test_names_of_images(name: str) -> None:
    assert name_problem(name) == ""


@pytest.mark.parametrize(
    "name", ["", " ", "INVALID IMAGE", "a//b", "a:", "a:b:c", "a@sha256:0", "-a", "a_/b", "http://a/b", "a:tag?"]
)
def test_names_that_are_not_names_of_images(name: str) -> None:
    assert name_problem(name).startswith("invalid reference format")


@pytest.mark.parametrize("spec", [{"image": "app"}, {"image": "invalid/app"}, {"image": "example.com/invalid"}])
def test_other_images_are_present(spec: Tree) -> None:
    check_image(spec, pulls=True)
    check_image({**spec, "imagePullPolicy": "Never"}, pulls=True)


def test_nodes_with_images_of_their_own_do_not_check_registries() -> None:
    check_image({"image": UNKNOWN}, pulls=False)


@pytest.mark.parametrize(
    ("spec", "reason", "message", "events"),
    [
        (
            {"image": "INVALID IMAGE"},
            "InvalidImageName",
            f'Failed to apply default image tag "INVALID IMAGE": {INVALID}',
            ["Error: InvalidImageName"],
        ),
        (
            {"image": UNKNOWN, "imagePullPolicy": "Never"},
            "ErrImageNeverPull",
            f'Container image "{UNKNOWN}" is not present with pull policy of Never',
            ["Error: ErrImageNeverPull"],
        ),
        (
            {"image": UNKNOWN},
            "ErrImagePull",
            NO_HOST,
            [f'Failed to pull image "{UNKNOWN}": {NO_HOST}', "Error: ErrImagePull"],
        ),
    ],
    ids=["invalid", "never", "unknown-host"],
)
def test_container_waits_for_its_image(spec: Tree, reason: str, message: str, events: list[str]) -> None:
    with pytest.raises(NotStarted) as caught:
        check_image(spec, pulls=True)
    assert (caught.value.reason, str(caught.value)) == (reason, message)

    async def scenario() -> None:
        async with world(speed=1.0) as on:
            on.pod(main=spec)
            await on.until(lambda: "waiting" in on.main().get("state", {}) and on.events("Failed"))
            await on.flush_events()
            assert on.main()["state"]["waiting"] == {"reason": reason, "message": message}
            assert on.events("Failed") == events

    idle.run(scenario())


def reasons(on: World) -> list[str]:
    """The reasons for which the container waited, in the order of the writes."""
    found: list[str] = []
    for _, resource, event in on.client.history:
        for status in (event.object.get("status") or {}).get("containerStatuses") or () if resource == PODS else ():
            reason = status["state"].get("waiting", {}).get("reason", "")
            if reason and reason not in ("ContainerCreating", *found[-1:]):
                found.append(reason)
    return found


def test_pull_is_retried_after_a_back_off() -> None:
    async def scenario() -> None:
        async with world() as on:
            on.pod(main={"image": UNKNOWN})
            await on.until(lambda: len(reasons(on)) >= 4)
            assert reasons(on)[:4] == ["ErrImagePull", "ImagePullBackOff"] * 2
            on.delete()
            await on.until(lambda: not on.exists())

    idle.run(scenario())
