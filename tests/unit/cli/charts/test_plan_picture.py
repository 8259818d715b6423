"""Pictures of plans are readable, complete and deterministic."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("matplotlib")

from allotment.cli.charts.palette import COLOURS, INK, OTHER, PAPER, colours_of, ink_on
from allotment.cli.charts.plan import draw
from allotment.cli.charts.text_metrics import fitted, width_of
from allotment.planning.report import ProvisioningPlan
from tests.unit.planning.sample_plans import mixed_plan, plan_with_groups


def svg(plan: ProvisioningPlan, folder: Path) -> str:
    path = folder / "plan.svg"
    draw(plan, path)
    return path.read_text("utf-8")


def test_an_svg_is_well_formed_and_names_everything(tmp_path: Path) -> None:
    text = svg(mixed_plan(), tmp_path)
    assert ElementTree.fromstring(text).tag.endswith("svg")
    for words in (
        "aws/p4d.24xlarge",
        "gcp/a2-highgpu-1g",
        "train-0",
        "notebook",
        "9Gi",
        "3 machines",
        "1 pod not placed",
    ):
        assert f"<!-- {words}" in text or words in text, words


def test_the_lower_bound_is_drawn(tmp_path: Path) -> None:
    assert "no plan costs less than 26.237" in svg(mixed_plan(), tmp_path)


def test_the_same_plan_gives_the_same_bytes(tmp_path: Path) -> None:
    assert svg(mixed_plan(), tmp_path) == svg(mixed_plan(), tmp_path)
    for name in ("one.png", "two.png"):
        draw(mixed_plan(), tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    assert b"<dc:date>" not in svg(mixed_plan(), tmp_path).encode()


def test_a_png_decodes(tmp_path: Path) -> None:
    path = tmp_path / "plan.png"
    draw(mixed_plan(), path)
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks: dict[bytes, bytes] = {}
    at = 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind = data[at + 4 : at + 8]
        chunks[kind] = chunks.get(kind, b"") + data[at + 8 : at + 8 + length]
        at += 12 + length
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    pixels = zlib.decompress(chunks[b"IDAT"])
    assert len(pixels) == height * (1 + 4 * width)
    assert len(set(pixels)) > 50  # something is drawn


def test_equal_machines_are_drawn_once(tmp_path: Path) -> None:
    text = svg(plan_with_groups(150, 5), tmp_path)
    assert "<!-- 30 × aws/type-4 -->" in text
    assert text.count("<!-- us-east-1a") == 5


def test_150_machine_groups_fit_one_page(tmp_path: Path) -> None:
    text = svg(plan_with_groups(150, 150), tmp_path)
    root = ElementTree.fromstring(text)
    width, height = (float(root.attrib[name].removesuffix("pt")) for name in ("width", "height"))
    assert 0.4 < width / height < 2.5
    assert "and 30 more machines of 30 more kinds" in text


def test_an_empty_plan_can_be_drawn(tmp_path: Path) -> None:
    assert "No machine" in svg(ProvisioningPlan(), tmp_path)


def test_an_unknown_suffix_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a name that ends in \.svg or \.png"):
        draw(mixed_plan(), tmp_path / "plan.gif")


def test_a_long_name_is_truncated_before_its_number() -> None:
    short = fitted("inference-server-12", width_of("inferen…12", 8), 8)
    assert short.startswith("inf")
    assert short.endswith("…12")
    assert fitted("inference-server-12", 0.01, 8) == ""
    assert width_of(fitted("aws/g5.12xlarge", 0.5, 8, numbered=False), 8) <= 0.5


def test_workloads_beyond_the_palette_share_one_colour() -> None:
    found = colours_of(f"w{n}" for n in range(len(COLOURS) + 2))
    assert list(found.values())[-2:] == [OTHER, OTHER]
    assert len(set(found.values())) == len(COLOURS) + 1


def test_letters_are_dark_on_light_colours_and_light_on_dark_ones() -> None:
    assert [ink_on(colour) for colour in ("#ffffff", "#eedd88", "#117733", "#000000")] == [INK, INK, PAPER, PAPER]
