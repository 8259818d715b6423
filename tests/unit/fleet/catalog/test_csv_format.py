"""User catalogs: every problem is reported with its position, and valid rows are kept."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.fleet import accelerators
from allotment.fleet.catalog import CAPACITY_TYPES, InstanceType, NodeCapacity, catalog, read_catalog
from allotment.fleet.catalog.csv_format import COLUMNS, cells, to_csv
from allotment.fleet.catalog.instance_type import with_usability

USD = "expected USD per hour, above 0 and at most 10000"
HEAD = "provider,instance_type,vcpu,memory_gib,gpu_count,gpu,on_demand_usd_per_hour,spot_usd_per_hour"


def found(*rows: str, head: str = HEAD) -> tuple[list[str], list[str]]:
    """The names of the valid rows, and the problems as text."""
    types, problems = read_catalog("\n".join((head, *rows)), "own.csv")
    return [instance.name for instance in types], [str(problem) for problem in problems]


@pytest.mark.parametrize("price", ["", "0", "0.0", "0.000"])
def test_a_blank_or_zero_price_is_unknown(price: str) -> None:
    ((instance,), problems) = read_catalog(f"{HEAD}\nus,box,8,64,1,l4,{price},1.5", "own.csv")
    assert problems == ()
    assert instance.prices == (("spot", Decimal("1.5")),)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("us,box,8,64,1,l4,-1,", f"own.csv:2:18: on_demand_usd_per_hour: {USD}, found '-1'"),
        ("us,box,8,64,1,l4,NaN,", f"own.csv:2:18: on_demand_usd_per_hour: {USD}, found 'NaN'"),
        ("us,box,8,64,1,l4,1e3,", f"own.csv:2:18: on_demand_usd_per_hour: {USD}, found '1e3'"),
        ("us,box,8,64,1,l4,10000.5,", f"own.csv:2:18: on_demand_usd_per_hour: {USD}, found '10000.5'"),
        ("us,box,8,64,1,l4,1,$2", f"own.csv:2:20: spot_usd_per_hour: {USD}, found '$2'"),
        (
            "us,box,8,0,1,l4,1,",
            "own.csv:2:10: memory_gib: expected memory in GiB, above 0 and at most 65536, found '0'",
        ),
        ("us,box,-8,64,1,l4,1,", "own.csv:2:8: vcpu: expected a number of vCPUs, above 0 and at most 4096, found '-8'"),
        ("us,box,8,64,73,l4,1,", "own.csv:2:13: gpu_count: expected number of GPUs, 0 to 72, found '73'"),
        ("us,box,8,64,1.5,l4,1,", "own.csv:2:13: gpu_count: expected number of GPUs, 0 to 72, found '1.5'"),
        ("us,box,8,64,0,l4,1,", "own.csv:2:15: gpu: found 'l4' without gpu_count"),
        ("us,box,8,64,1,l5,1,", "own.csv:2:15: gpu: unknown hardware 'l5': expected an accelerator"),
        ("US East,box,8,64,1,l4,1,", "own.csv:2:1: provider: expected a provider, in lower-case letters, digits and -"),
        ("us,,8,64,1,l4,1,", "own.csv:2:4: instance_type: expected the cloud's name for the instance type, found ''"),
        ('us,"box,8,64,1,l4,1,', "own.csv:2:1: the closing quote is missing"),
        ("us,box,8,64,1,l4,1,,extra", "own.csv:2:21: expected 8 cells, found 9"),
    ],
)  # fmt: skip
def test_an_invalid_row_is_reported_and_the_others_kept(row: str, problem: str) -> None:
    names, problems = found(row, "us,good,8,64,1,l4,1,")
    assert names == ["good"]
    assert len(problems) == 1
    assert problems[0].startswith(problem)


def test_all_problems_of_a_row_are_reported() -> None:
    names, problems = found("us,box,0,0,99,l4,-1,-2")
    assert names == []
    assert len(problems) == 5  # no additional problem for a GPU without a count


def test_allocatable_resources_cannot_exceed_the_capacity() -> None:
    _, problems = found("us,box,8,64,9000,64", head="provider,instance_type,vcpu,memory_gib,alloc_vcpu_milli,pods")
    assert problems == ["own.csv:2:13: alloc_vcpu_milli: 9000 exceeds the 8000 that the instance type has"]


def test_unknown_and_missing_columns_are_reported() -> None:
    names, problems = found("us,box,1", head="provider,instance_type,price")
    assert names == ["box"]
    assert problems[0].startswith("own.csv:1:24: column 'price' is unknown and ignored")
    names, problems = found("box", head="region")
    assert names == []
    assert len([problem for problem in problems if "expected one column" in problem]) == 2
    assert read_catalog("", "own.csv")[1][0].code == "empty-catalog"


@pytest.mark.parametrize(
    ("head", "row", "message"),
    [
        ("provider;instance_type;vcpu", "us;box;8", "own.csv:1:9: expected commas between the columns, found ';'"),
        ("provider\tinstance_type", "us\tbox", "own.csv:1:9: expected commas between the columns, found '\\t'"),
        ("us,box,14.50", "us,bow,2", "own.csv:1:1: expected a header line with column names, found 'us, box, 14.50'"),
        (
            "provider,provider,instance_type",
            "us,us,box",
            "own.csv:1:1: expected one column provider, found provider twice",
        ),
    ],
)
def test_an_invalid_catalog_is_one_problem(head: str, row: str, message: str) -> None:
    names, problems = found(row, head=head)
    assert names == []
    assert next(problem for problem in problems if "column" in problem).startswith(message)
    assert len(problems) == 1 or "twice" in message


def test_price_columns_have_several_names() -> None:
    for name, column in (("price", "on_demand"), ("USD", "on_demand"), ("spot_price", "spot"), ("cost/h", "on_demand")):
        problems = read_catalog(f"provider,instance_type,{name}\nus,box,1", "own.csv")[1]
        assert problems[0].hint == f"did you mean {column}_usd_per_hour?"


def test_a_duplicate_column_is_ignored() -> None:
    price = "on_demand_usd_per_hour"
    types, problems = read_catalog(f"provider,instance_type,{price},{price}\nus,box,14,3", "own.csv")
    assert types[0].price("on-demand") is None
    assert [problem.position.column for problem in problems] == [24, 47]


def test_a_duplicate_type_is_reported() -> None:
    names, problems = found("us,box,8,64,1,l4,1,", "us,box,8,64,1,l4,2,")
    assert names == ["box"]
    assert problems[0].startswith("own.csv:3:1: us/box is listed twice, first in line 2")


def test_blank_lines_comments_and_a_byte_order_mark() -> None:
    types, problems = read_catalog(f"\ufeff# prices\n{HEAD}\r\n\r\n# expensive\nus,box,8,64,1,l4,1,\n", "own.csv")
    assert (len(types), problems) == (1, ())


@given(
    st.lists(st.text(st.characters(blacklist_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=8), min_size=1, max_size=6)
)
def test_cells_are_split_as_they_were_joined(texts: list[str]) -> None:
    line = ",".join('"' + text.replace('"', '""') + '"' for text in texts)
    split = cells(line)
    assert split is not None
    assert [cell.text for cell in split] == texts
    assert all(line[cell.column - 1] == '"' for cell in split)


def test_the_catalog_reads_what_it_writes() -> None:
    types, problems = read_catalog(to_csv(catalog()), "again.csv")
    assert problems == ()
    assert types == catalog()


PRICES = st.decimals("0.001", "10000", places=4)
WORDS = st.text("ab ,\"'é#", max_size=6).map(str.strip)


@st.composite
def instance_types(draw: st.DrawFn) -> InstanceType:
    """Instance types with any known and unknown fields, as the reader returns them."""
    size = Decimal(1) if draw(st.booleans()) else None
    room = draw(st.none() | st.builds(NodeCapacity, st.integers(1, 900), st.integers(1, 900), st.integers(1, 200)))
    gpus = draw(st.integers(0, 16))
    model = draw(st.sampled_from(list(accelerators().values()))) if gpus else None
    prices = {capacity: draw(st.none() | PRICES) for capacity in CAPACITY_TYPES}
    return with_usability(
        InstanceType(
            provider="us", name=draw(st.from_regex(r"[a-z]{1,5}(\.[a-z0-9]{1,5})?", fullmatch=True)),
            region=draw(st.sampled_from(["", "here"])), zones=draw(st.sampled_from([("a",), ("a", "b")])),
            vcpu=size, memory_gib=size,
            room=room, gpus=gpus, accelerator=model, gpu_model="X" if gpus else "",
            prices=tuple((capacity, price) for capacity, price in prices.items() if price is not None),
            as_of=draw(st.sampled_from(["", "2026", "2026-08-03"])), price_source="somewhere",
            notes=draw(WORDS),
        )
    )  # fmt: skip


@given(instance_types())
def test_instance_types_round_trip(instance: InstanceType) -> None:
    types, problems = read_catalog(to_csv([instance]), "own.csv")
    assert problems == ()
    (back,) = types
    if instance.room is None and instance.vcpu is not None:  # then a rule estimates it
        assert back.room is not None
        assert back.room.estimated
        instance = with_usability(replace(instance, room=back.room))
    assert back == instance


@given(st.text('provider,instance_type\n"0123456789.-awsl4é ', max_size=120))
def test_any_text_is_parsed_or_reported(text: str) -> None:
    types, problems = read_catalog(text, "own.csv")
    assert all(price > 0 for instance in types for _, price in instance.prices)
    assert all(problem.position.line >= 1 for problem in problems)
    head = ",".join(COLUMNS)
    types, problems = read_catalog(f"{head}\n{text}", "own.csv")
    assert all(price > 0 for instance in types for _, price in instance.prices)
