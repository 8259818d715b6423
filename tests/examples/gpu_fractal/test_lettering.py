import string

import pytest

from gpu_fractal.caption import draw_caption
from gpu_fractal.device_info import DeviceInfo, cuda_device_info, simulated_device_info
from gpu_fractal.drawing import Size
from gpu_fractal.glyphs import STROKES
from gpu_fractal.lettering import draw_text, text_width
from gpu_fractal.locations import View

WIDTH, HEIGHT = 60, 40
VIEW = View("seahorse valley", 0.0, 0.0, 0.001, 100)


def written(text: str, height: float = 14.0, x: int = 6) -> bytes:
    pixels = bytearray(3 * WIDTH * HEIGHT)
    draw_text(pixels, WIDTH, text, x, 26, height)
    return bytes(pixels[::3])


def test_every_printable_character_has_a_distinct_shape() -> None:
    letters = [letter for letter in string.printable if letter.isprintable() and letter not in " $@\\^`{|}~"]
    shapes = {written(letter) for letter in letters}
    assert len(shapes) == len(letters)
    assert not set(letters) - set(STROKES)


def test_unknown_characters_are_boxes_and_dashes_are_equal() -> None:
    assert written("\N{SNOWMAN}") == written("$") != written("I")
    assert written("–") == written("-")


def test_letters_are_on_the_baseline_and_have_the_returned_width() -> None:
    rows = [row for row in range(HEIGHT) if any(written("H")[row * WIDTH : (row + 1) * WIDTH])]
    assert (rows[0], rows[-1]) == (26 - 14 - 1, 26 + 1)
    columns = [at % WIDTH for at, covered in enumerate(written("HOH")) if covered]
    assert min(columns) >= 6 - 1
    assert max(columns) <= 6 + text_width("HOH", 14.0) + 1


def test_edges_are_antialiased() -> None:
    assert len(set(written("O"))) > 10


@pytest.mark.parametrize("x", [-20, 55])
def test_text_outside_the_picture_is_clipped(x: int) -> None:
    assert len(written("WWW", x=x)) == WIDTH * HEIGHT


@pytest.mark.parametrize("size", [Size(800, 500), Size(240, 150), Size(40, 20)])
def test_a_caption_is_light_on_dark(size: Size) -> None:
    pixels = bytearray(b"\xff" * 3 * size.width * size.height)
    about = DeviceInfo("NVIDIA A100-SXM4-40GB", "14 multiprocessors, 4.8 GiB", "MIG 1g.5gb")
    draw_caption(pixels, size, about, VIEW, 3)
    assert len(pixels) == 3 * size.width * size.height
    half = 3 * size.width * (size.height // 2)
    if size.width > 100:
        assert set(pixels[:half]) == {255}
    last = pixels[-3 * size.width :]
    assert max(last) < 90


def test_a_caption_describes_how_the_device_is_shared() -> None:
    gpu = {"product": "NVIDIA A100-SXM4-40GB", "multiprocessors": 108, "memory": 40 << 30}
    turns = simulated_device_info({**gpu, "strategy": "time-slicing", "interval": 3})
    assert turns == DeviceInfo("NVIDIA A100-SXM4-40GB", "108 multiprocessors, 40 GiB", "time-slicing, long interval")
    mps = simulated_device_info({**gpu, "strategy": "mps", "threads": 33, "memory_limit": 5 << 30})
    assert mps[1:] == ("33 % of 108 multiprocessors, 5 GiB", "MPS, side by side")
    mig = simulated_device_info({**gpu, "strategy": "mig", "profile": "1g.5gb"})
    assert mig.strategy == "MIG 1g.5gb"


def test_a_real_gpu_is_described_as_seen_from_the_container() -> None:
    memory = 4864 << 20
    mig = cuda_device_info("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 14, memory, {})
    assert mig[1:] == ("14 multiprocessors, 4.8 GiB", "MIG 1g.5gb")
    mps = cuda_device_info("Tesla T4", 40, memory, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "33"})
    assert mps[1:] == ("33 % of 40 multiprocessors, 4.8 GiB", "MPS, side by side")
    assert cuda_device_info("Tesla T4", 40, memory, {}).strategy == "GPU"
