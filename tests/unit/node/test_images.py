from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.node.runtimes.images import Image, Images, InvalidImages, demo_images, parse_images, read_images
from allotment.node.runtimes.runtime import NotStarted


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("ubuntu:22.04", "ubuntu:22.04"),
        ("ubuntu", "ubuntu:22.04"),
        ("ubuntu", "docker.io/library/ubuntu:22.04"),
        ("docker.io/library/ubuntu", "ubuntu"),
        ("rocm/pytorch", "docker.io/rocm/pytorch:latest"),
        ("ghcr.io/castai/gpu-demo-app", "ghcr.io/castai/gpu-demo-app@sha256:00ff"),
        ("ghcr.io/castai/gpu-demo-app:v1", "ghcr.io/castai/gpu-demo-app:v1@sha256:00ff"),
        ("localhost:5000/app", "localhost:5000/app"),
        ("nvcr.io/nvidia/k8s/cuda-sample:*ubuntu18.04", "nvcr.io/nvidia/k8s/cuda-sample:nbody-cuda11.6.0-ubuntu18.04"),
        ("*", "anything/at:all"),
    ],
)
def test_a_pattern_matches_every_spelling_of_an_image_name(pattern: str, name: str) -> None:
    assert Images([Image(pattern)]).find(name) is not None


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("ubuntu:22.04", "ubuntu:24.04"),
        ("ubuntu:22.04", "ubuntu"),
        ("ubuntu", "evil/ubuntu"),
        ("app", "localhost:5000/app"),
        ("ubuntu.22", "ubuntu:22"),
        ("demo", "demo-app"),
        ("ghcr.io/demo", "docker.io/demo"),
    ],
)
def test_a_pattern_matches_no_other_image(pattern: str, name: str) -> None:
    assert Images([Image(pattern)]).find(name) is None


@given(st.text(st.sampled_from("ab/:.@-"), min_size=1))
def test_every_name_matches_itself_and_the_wildcard(name: str) -> None:
    assert Images([Image("*")]).find(name) is not None
    assert Images([Image(name)]).find(name) is not None


def test_the_first_matching_entry_is_used() -> None:
    found = Images([Image("ubuntu:22.04", ("a",)), Image("ubuntu", ("b",)), Image("*", ("c",))])
    assert [found.take({"image": name}).command for name in ("ubuntu:22.04", "ubuntu", "x")] == [("a",), ("b",), ("c",)]


@pytest.mark.parametrize(
    ("policy", "reason", "message"),
    [
        ("Never", "ErrImageNeverPull", 'Container image "app:1" is not present with pull policy of Never'),
        ("IfNotPresent", "ErrImagePull", "not found"),
    ],
)
def test_an_unlisted_image_does_not_start_and_the_error_has_the_fix(policy: str, reason: str, message: str) -> None:
    with pytest.raises(NotStarted) as caught:
        Images([Image("other", ("x",))], "here.toml").take({"image": "app:1", "imagePullPolicy": policy})
    assert caught.value.reason == reason
    assert (
        str(caught.value) == f'{message}; images are not pulled: add an [[image]] with pattern = "app:1" to here.toml'
    )


def _words(image: Image, *, command: tuple[str, ...] = (), args: tuple[str, ...] = ()) -> tuple[str, ...]:
    spec: dict[str, Any] = {"image": "app", "command": list(command), "args": list(args)}
    return image.words(spec, (*command, *args), 4711)


def test_arguments_follow_the_command_of_the_image_unless_it_can_be_replaced() -> None:
    image = Image("app", ("serve", "--port", "{port}"), commands="run")
    assert _words(image) == ("serve", "--port", "4711")
    assert _words(image, args=("-v",)) == ("serve", "--port", "4711", "-v")
    assert _words(image, command=("sh", "-c"), args=("x",)) == ("sh", "-c", "x")


def test_a_manifests_command_does_not_run_unless_the_file_allows_it() -> None:
    with pytest.raises(NotStarted, match='set commands = "run" for pattern = "app"') as caught:
        _words(Image("app", ("serve",)), command=("rm", "-rf", "/"))
    assert caught.value.reason == "CreateContainerError"
    assert _words(Image("app", ("serve",), commands="ignored"), command=("rm",), args=("-rf",)) == ("serve",)


def test_placeholders_for_interpreter_and_port() -> None:
    assert Image("app", ("{python}",)).words({}, (), None) == (sys.executable,)
    with pytest.raises(NotStarted, match="expected a containerPort in the manifest"):
        Image("app", ("x", "{port}")).words({}, (), None)
    with pytest.raises(NotStarted, match="no command specified"):
        Image("app", commands="run").words({"image": "app"}, (), None)


def test_folders_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "images.toml").write_text(
        '[[image]]\npattern = "a"\ncommand = ["x", "y"]\nenv = { A = "1" }\nrootfs = "root"\ndirectory = "/"\n'
        '[[image]]\npattern = "b"\ncommands = "run"\n'
    )
    images = read_images(tmp_path / "images.toml")
    assert images.entries == (
        Image("a", ("x", "y"), {"A": "1"}, "/", str(tmp_path / "root")),
        Image("b", commands="run"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[image]\n", "images.toml: not TOML: "),
        ('[[images]]\npattern = "a"\n', "images.toml: Object contains unknown field `images`"),
        ('[[image]]\ncommand = ["x"]\n', "images.toml: Object missing required field `pattern` - at `$.image[0]`"),
        ('[[image]]\npattern = "a"\ncommand = "x"\n', "Expected `array`, got `str` - at `$.image[0].command`"),
        ('[[image]]\npattern = "a"\ncommands = "yes"\n', "Invalid enum value 'yes' - at `$.image[0].commands`"),
        ('[[image]]\npattern = ""\ncommand = ["x"]\n', "image 1 (no pattern): pattern: expected an image name"),
        ('[[image]]\npattern = "a"\n', "image 1 (a): command: expected a program and its arguments"),
        ('[[image]]\npattern = "a"\ncommand = ["{prot}"]\n', "image 1 (a): command: expected {python} or {port}"),
        ('[[image]]\npattern = "a"\ncommand = ["x"]\nenv = { "A=B" = "1" }\n', "env: expected a variable name"),
        ('[[image]]\npattern = "a"\ncommand = ["x"]\nrootfs = "none"\n', "rootfs: directory not found:"),
        (
            '[[image]]\npattern = "a"\ncommand = ["x"]\n[[image]]\npattern = "a"\ncommand = ["y"]\n',
            "image 2 (a): pattern: same as image 1, which matches first",
        ),
    ],
)
def test_an_invalid_file_is_reported_with_location_and_expectation(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidImages) as caught:
        parse_images(text, "images.toml", tmp_path)
    assert message in str(caught.value)


def test_all_errors_of_a_file_are_reported_together(tmp_path: Path) -> None:
    with pytest.raises(InvalidImages) as caught:
        parse_images('[[image]]\npattern = "a"\n[[image]]\npattern = "b"\n', "images.toml", tmp_path)
    assert len(str(caught.value).splitlines()) == 2


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidImages, match=r"images\.toml: images file not found"):
        read_images(tmp_path / "images.toml")


def test_without_a_file_only_the_articles_demo_runs_with_its_own_command() -> None:
    image = demo_images().take({"image": "ghcr.io/castai/gpu-demo-app:latest"})
    assert (Path(image.directory) / "gpu_fractal" / "__main__.py").is_file()
    demo_command = (sys.executable, "-m", "gpu_fractal")
    assert _words(image) == _words(image, command=("rm",)) == _words(image, args=("-rf",)) == demo_command
    with pytest.raises(NotStarted):
        demo_images().take({"image": "ubuntu:22.04"})


def test_without_a_source_tree_no_image_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allotment.node.runtimes.images.examples_folder", lambda: None)
    with pytest.raises(NotStarted, match=r"add an \[\[image\]\] with pattern = .* to a file passed with --images"):
        demo_images().take({"image": "ghcr.io/castai/gpu-demo-app:latest"})
