import string

import pytest

from gpu_fractal.about import About, about_cuda, about_simulated
from gpu_fractal.caption import caption
from gpu_fractal.drawing import Size
from gpu_fractal.glyphs import STROKES
from gpu_fractal.lettering import text_width, write
from gpu_fractal.places import View

WIDTH, HEIGHT = 60, 40
VIEW = View("seahorse valley", 0.0, 0.0, 0.001, 100)


def written(text: str, height: float = 14.0, x: int = 6) -> bytes:
    pixels = bytearray(3 * WIDTH * HEIGHT)
    write(pixels, WIDTH, text, x, 26, height)
    return bytes(pixels[::3])


def test_every_printable_character_has_a_shape_of_its_own() -> None:
    letters = [letter for letter in string.printable if letter.isprintable() and letter not in " $@\\^`{|}~"]
    shapes = {written(letter) for letter in letters}
    assert len(shapes) == len(letters)
    assert not set(letters) - set(STROKES)


def test_what_nobody_drew_shows_as_a_box_and_dashes_look_alike() -> None:
    assert written("\N{SNOWMAN}") == written("$") != written("I")
    assert written("–") == written("-")


def test_letters_stand_on_their_line_and_as_wide_as_told() -> None:
    rows = [row for row in range(HEIGHT) if any(written("H")[row * WIDTH : (row + 1) * WIDTH])]
    assert (rows[0], rows[-1]) == (26 - 14 - 1, 26 + 1)
    columns = [at % WIDTH for at, covered in enumerate(written("HOH")) if covered]
    assert min(columns) >= 6 - 1
    assert max(columns) <= 6 + text_width("HOH", 14.0) + 1


def test_edges_are_soft() -> None:
    assert len(set(written("O"))) > 10


@pytest.mark.parametrize("x", [-20, 55])
def test_what_lies_outside_is_left_out(x: int) -> None:
    assert len(written("WWW", x=x)) == WIDTH * HEIGHT


@pytest.mark.parametrize("size", [Size(800, 500), Size(240, 150), Size(40, 20)])
def test_a_caption_is_light_on_dark(size: Size) -> None:
    pixels = bytearray(b"\xff" * 3 * size.width * size.height)
    about = About("NVIDIA A100-SXM4-40GB", "14 multiprocessors, 4.8 GiB", "MIG 1g.5gb")
    caption(pixels, size, about, VIEW, 3)
    assert len(pixels) == 3 * size.width * size.height
    half = 3 * size.width * (size.height // 2)
    if size.width > 100:
        assert set(pixels[:half]) == {255}
    last = pixels[-3 * size.width :]
    assert max(last) < 90


def test_a_picture_says_how_its_device_is_shared() -> None:
    gpu = {"product": "NVIDIA A100-SXM4-40GB", "multiprocessors": 108, "memory": 40 << 30}
    turns = about_simulated({**gpu, "strategy": "time-slicing", "interval": 3})
    assert turns == About("NVIDIA A100-SXM4-40GB", "108 multiprocessors, 40 GiB", "time-slicing, long turns")
    mps = about_simulated({**gpu, "strategy": "mps", "threads": 33, "memory_limit": 5 << 30})
    assert mps[1:] == ("33 % of 108 multiprocessors, 5 GiB", "MPS, side by side")
    mig = about_simulated({**gpu, "strategy": "mig", "profile": "1g.5gb"})
    assert mig.strategy == "MIG 1g.5gb"


def test_of_a_real_gpu_it_says_what_can_be_seen_from_inside() -> None:
    memory = 4864 << 20
    mig = about_cuda("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 14, memory, {})
    assert mig[1:] == ("14 multiprocessors, 4.8 GiB", "MIG 1g.5gb")
    mps = about_cuda("Tesla T4", 40, memory, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "33"})
    assert mps[1:] == ("33 % of 40 multiprocessors, 4.8 GiB", "MPS, side by side")
    assert about_cuda("Tesla T4", 40, memory, {}).strategy == "GPU"
