"""Quantities: value, representation and text as in Kubernetes 1.36."""

from __future__ import annotations

import copy
import gzip
import json
import pickle
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.model.quantity import Quantity, QuantityError

SUFFIXES = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15),
    "E": Fraction(10**18), "e3": Fraction(10**3), "E-2": Fraction(1, 100),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50),
}  # fmt: skip

numbers = st.from_regex(r"[+-]?[0-9]{1,22}(\.[0-9]{0,11})?", fullmatch=True)
spellings = st.tuples(numbers, st.sampled_from(sorted(SUFFIXES))).map("".join)


@pytest.mark.parametrize(
    ("text", "canonical", "nano"),
    [
        ("0", "0", 0),
        ("40Gi", "40Gi", 40 * 2**30 * 10**9),
        ("1.5Gi", "1536Mi", 3 * 2**29 * 10**9),
        ("1024Mi", "1Gi", 2**30 * 10**9),
        ("+1.5Ki", "1536", 1536 * 10**9),
        ("0.0001Ki", "102400u", 102_400_000),
        ("0.5", "500m", 5 * 10**8),
        ("1500m", "1500m", 15 * 10**8),
        ("0.1n", "1n", 1),
        ("-1.1n", "-2n", -2),
        ("1e3", "1e3", 10**12),
        ("1E3", "1E3", 10**12),
        ("1e19", "10e18", 10**28),
        ("1e400", "10e399", 10**409),
        ("1e-400", "1e-9", 1),
        ("16Ei", "9223372036854775807", (2**63 - 1) * 10**9),
        ("00001", "00001", 10**9),
        ("1.", "1.", 10**9),
        ("Gi", "0", 0),
        (".", "0", 0),
        ("-", "0", 0),
        ("1000E", "1e21", 10**30),
        ("9223372036854775808", "9223372036854775808", 2**63 * 10**9),
    ],
)
def test_value_and_canonical_text(text: str, canonical: str, nano: int) -> None:
    quantity = Quantity.parse(text)
    assert str(quantity) == canonical
    assert quantity.nano == nano


@pytest.mark.parametrize("text", ["", " 1", "1 ", "abc", "1GiB", "1.2.3", "1,5", "1_0", "０", "1\n", "1KiKi2x", "1g"])
def test_text_with_a_wrong_format_is_an_error(text: str) -> None:
    with pytest.raises(QuantityError, match=r"quantities must match the regular expression"):
        Quantity.parse(text)


@pytest.mark.parametrize("text", ["1K", "1e", "--1", "1Mi1", "1ki", "5i", "1e99999999999999999999", "1e999999999"])
def test_unknown_suffix_is_an_error(text: str) -> None:
    with pytest.raises(QuantityError, match=r"unable to parse quantity's suffix"):
        Quantity.parse(text)


@pytest.mark.parametrize("text", ["Ei", "-Pi", "e-12", ".Pi", "9" * 5000])
def test_numbers_without_digits_or_with_too_many_are_errors(text: str) -> None:
    with pytest.raises(QuantityError, match="unable to parse numeric part of quantity"):
        Quantity.parse(text)


@pytest.mark.parametrize(
    "text", ["0", "1", "-1", "1Ki", "99Ti", "99999Gi", "1e18", "12e6", "1k", "1E", "Gi", "999999999999999999"]
)
def test_integer_representations(text: str) -> None:
    quantity = Quantity.parse(text)
    assert quantity.is_integer()
    assert quantity.as_integer() * 10**9 == quantity.nano


@pytest.mark.parametrize(
    "text",
    ["1.0", "100m", "1.5Gi", "1.0Ki", "100Ti", "1Pi", "1Ei", "100000Gi", "12E", "1e19", "9223372036854775807", "1u"],
)
def test_non_integer_representations(text: str) -> None:
    quantity = Quantity.parse(text)
    assert not quantity.is_integer()
    with pytest.raises(QuantityError, match=r"^cannot convert value to integer$"):
        quantity.as_integer()


@pytest.mark.parametrize(
    ("left", "right", "total", "is_integer"),
    [
        ("1Gi", "1024Mi", "2Gi", True),
        ("0", "1Mi", "1Mi", True),
        ("1Ki", "1", "1025", True),
        ("1.5", "1.5Ki", "1537500m", False),
        ("1Pi", "1", "1125899906842625", False),
        ("1", "0.0", "1", True),
        ("0.0", "1", "1", True),
        ("999999999999999999", "999999999999999999", "1999999999999999998", True),
        ("9E", "9E", "18E", False),
        ("1", "-1", "0", True),
    ],
)
def test_sums_keep_suffix_family_and_representation(left: str, right: str, total: str, is_integer: bool) -> None:
    result = Quantity.parse(left).add(Quantity.parse(right))
    assert (str(result), result.is_integer()) == (total, is_integer)


def test_operators_add_subtract_and_convert() -> None:
    parts = [Quantity.parse("10Gi"), Quantity.parse("512Mi")]
    assert str(sum(parts, Quantity.ZERO)) == "10752Mi"
    assert str(parts[0] - parts[1]) == "9728Mi"
    assert int(Quantity.parse("1500m")) == 2  # rounded away from zero, as by value()
    assert float(Quantity.parse("1500m")) == 1.5
    with pytest.raises(TypeError):
        parts[0] + 1  # type: ignore[operator]
    with pytest.raises(TypeError):
        parts[0] - "1Gi"  # type: ignore[operator]


def test_value_rounds_away_from_zero() -> None:
    assert [Quantity.parse(text).value() for text in ("1.1", "-1.1", "1n", "2", "-0")] == [2, -2, 1, 2, 0]


def test_quantities_are_immutable_and_picklable() -> None:
    quantity = Quantity.parse("1.5Gi")
    with pytest.raises(AttributeError):
        quantity.nano = 1
    with pytest.raises(AttributeError):
        del quantity.nano
    copied = pickle.loads(pickle.dumps(quantity))
    assert (copied, str(copied), copied.is_small) == (quantity, "1536Mi", False)
    assert copy.deepcopy(quantity) is quantity
    assert quantity != "1536Mi"


@given(numbers, st.sampled_from(sorted(SUFFIXES)))
def test_value_is_exact_up_to_one_nano(number: str, suffix: str) -> None:
    exact = Fraction(number.rstrip(".")) * SUFFIXES[suffix] * 10**9
    quantity = Quantity.parse(number + suffix)
    bound = (2**63 - 1) * 10**9
    if suffix.endswith("i") and abs(exact) > bound:
        assert abs(quantity.nano) == bound
    else:
        assert 0 <= abs(quantity.nano) - abs(exact) < 1


@given(spellings)
def test_canonical_text_round_trips(text: str) -> None:
    quantity = Quantity.parse(text)
    again = Quantity.parse(str(quantity))
    assert again == quantity
    assert hash(again) == hash(quantity)


@given(spellings, spellings)
def test_sums_and_order_match_the_values(left: str, right: str) -> None:
    a, b = Quantity.parse(left), Quantity.parse(right)
    assert a.add(b).nano == a.nano + b.nano
    assert a.sub(b).nano == a.nano - b.nano
    assert a.add(b).sub(b) == a
    outcome = (a < b, a <= b, a > b, a >= b, a == b)
    m, n = a.nano, b.nano
    assert outcome == (m < n, m <= n, m > n, m >= n, m == n)
    total = a.add(b)
    bound = (2**63 - 1) * 10**9
    # Beyond int64 a quantity with a binary suffix is parsed as the maximum, as in Go.
    if total.format != "BinarySI" or abs(total.nano) <= bound:
        assert Quantity.parse(str(total)).nano == total.nano


@given(st.text(max_size=12) | st.from_regex(r"[+-]?[0-9.]{0,4}[eEinumkKMGTP]{0,3}[+-]?[0-9]{0,12}", fullmatch=True))
def test_any_text_is_a_quantity_or_an_error(text: str) -> None:
    try:
        quantity = Quantity.parse(text)
    except QuantityError:
        return
    assert Quantity.parse(str(quantity)) == quantity
    assert isinstance(quantity.approximate_float(), float)


CALL = re.compile(
    r'quantity\("([^"\\]*)"\)(?:\.(\w+)\((?:quantity\("([^"]*)"\)|(-?[0-9]+))?\))?(?:\.(isInteger|asInteger)\(\))?'
)
METHODS: dict[str, Callable[[Quantity, Quantity], Any]] = {
    "add": Quantity.add,
    "sub": Quantity.sub,
    "isGreaterThan": lambda a, b: a > b,
    "isLessThan": lambda a, b: a < b,
    "compareTo": lambda a, b: (a > b) - (a < b),
    "isInteger": lambda a, _: a.is_integer(),
    "asInteger": lambda a, _: a.as_integer(),
    "asApproximateFloat": lambda a, _: a.approximate_float(),
}


def test_recorded_cel_results(shared: Callable[[str], Path]) -> None:
    """Every recorded CEL case that is a single call chain on a quantity, evaluated with the value type."""
    seen = 0
    with gzip.open(shared("vectors/cel/generated.jsonl.gz"), "rt") as lines:
        for case in map(json.loads, lines):
            chain = CALL.fullmatch(case["expression"])
            if not case["group"].startswith("quantity") or not chain or "compileError" in case["expect"]:
                continue
            text, method, other, number, last = chain.groups()
            answer: Any
            try:
                answer = Quantity.parse(text)
                argument = Quantity.parse(other) if other is not None else Quantity.of_int(int(number or 0))
                for name in filter(None, (method, last)):
                    answer = METHODS[name](answer, argument)
            except QuantityError as error:
                answer = str(error)
            expected = case["expect"].get("error") or case["expect"]["value"]["v"]
            if isinstance(answer, Quantity):
                answer = str(answer)
            elif isinstance(answer, float):
                expected = float(expected)
            assert answer == expected, case["expression"]
            seen += 1
    assert seen > 250
