import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_fractal.drawing import INSIDE, Backend, Size, Tones, fit_tones
from gpu_fractal.locations import WHOLE, View, limit_for, location_names, random_view
from gpu_fractal.on_numpy import numpy_backend
from gpu_fractal.on_python import python_backend
from gpu_fractal.schemes import SCHEMES, SHADES, palette

BACKENDS = (numpy_backend(), python_backend())
HOME = View("home", -0.6, 0.0, WHOLE, limit_for(WHOLE))


def steps(c: complex, limit: int) -> float:
    """The number of steps after which a point is further away than 64; the plain and slow definition."""
    z = 0j
    for step in range(limit + 1):
        if abs(z) >= 64:
            return step
        z = z * z + c
    return math.inf


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
def test_points_are_counted_until_they_escape(backend: Backend) -> None:
    size = Size(24, 16)
    counts = backend.counts(HOME, size)
    assert len(counts) == 24 * 16
    step = HOME.width / 24
    inside = 0
    for number, count in enumerate(counts):
        c = complex(HOME.x + (number % 24 - 11.5) * step, HOME.y - (number // 24 - 7.5) * step)
        real = steps(c, HOME.limit)
        if count == INSIDE:
            inside += 1
            assert real > HOME.limit - 1
        else:
            # The fraction is how far beyond the radius the last step went: at most it is squared.
            assert real - 1e-3 <= count <= real + 1 + 1e-3
    assert 0.1 < inside / len(counts) < 0.4


def test_python_and_numpy_return_the_same_counts() -> None:
    view = View("valley", -0.7453, 0.1127, 9e-3, 300)
    size = Size(30, 20)
    exact, fast = (backend.counts(view, size) for backend in reversed(BACKENDS))
    same = [math.isclose(one, other, rel_tol=1e-3, abs_tol=0.01) for one, other in zip(exact, fast, strict=True)]
    assert sum(same) > 0.99 * len(same)


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
@pytest.mark.parametrize("size", [Size(40, 25), Size(41, 27, 2), Size(300, 201)])
def test_a_picture_has_all_pixels_and_is_deterministic(backend: Backend, size: Size) -> None:
    colours = palette(SCHEMES[0])
    pixels = backend.draw(HOME, size, Tones(0.0, 0.3, 0.0), colours)
    assert len(pixels) == 3 * size.width * size.height
    assert len(set(zip(pixels[::3], pixels[1::3], pixels[2::3], strict=True))) > 20
    assert pixels == backend.draw(HOME, size, Tones(0.0, 0.3, 0.0), colours)
    # The middle of the set has the colour of the inside.
    middle = 3 * ((size.height // 2) * size.width + size.width // 2)
    assert pixels[middle : middle + 3] == colours[-3:]


def test_samples_are_averaged() -> None:
    backend, colours = BACKENDS[0], palette(SCHEMES[-1])
    toning = Tones(0.0, 0.3, 0.0)
    hard, soft = (backend.draw(HOME, Size(60, 40, samples), toning, colours) for samples in (1, 3))
    assert steepness(soft) < 0.9 * steepness(hard)


def steepness(pixels: bytearray) -> int:
    return sum(abs(one - other) for one, other in zip(pixels, pixels[3:], strict=False))


@given(st.lists(st.floats(1, 5000), min_size=100, max_size=200), st.floats(0, 1), st.floats(0.5, 2))
def test_tones_spread_counts_over_the_palette(counts: list[float], phase: float, rounds: float) -> None:
    found = fit_tones(counts, phase, rounds)
    if found is None:
        logs = sorted(math.log(count + 1) for count in counts)
        assert logs[-1 - len(logs) // 50] - logs[len(logs) // 50] < 0.25
    else:
        assert all(0 <= found.shade(count) < SHADES for count in counts)
    assert fit_tones([*counts, *[INSIDE] * len(counts)], phase, rounds) is None


def test_the_inside_has_a_separate_colour() -> None:
    assert Tones(0.0, 1.0, 0.0).shade(INSIDE) == SHADES
    for scheme in SCHEMES:
        assert palette(scheme)[-3:] == bytes.fromhex(scheme.inside[1:])


def test_there_are_eight_schemes_without_a_seam() -> None:
    assert len({scheme.name for scheme in SCHEMES}) == 8
    for scheme in SCHEMES:
        colours = palette(scheme)
        assert len(colours) == 3 * (SHADES + 1)
        ring = colours[:-3] + colours[:3]
        assert max(abs(one - other) for one, other in zip(ring, ring[3:], strict=False)) <= 8


def test_views_are_random_and_close_to_the_boundary() -> None:
    random = Random(1)
    views = [random_view(random) for _ in range(300)]
    assert {view.place for view in views} == set(location_names())
    assert [random_view(Random(5)) for _ in range(3)] == [random_view(Random(5))] * 3
    probes = [fit_tones(BACKENDS[0].counts(view, Size(24, 15)), 0.0, 1.0) for view in views[:60]]
    assert sum(found is not None for found in probes) > 40
