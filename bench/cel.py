"""The cost of selectors: ``python -m bench.cel SELECTORS.json`` prints one JSON line per measurement.

The names are ``compile EXPRESSION`` (parse, check, estimate the cost, plan), ``evaluate EXPRESSION`` (one device, with
its exact cost counted) and ``spread EXPRESSION``: one device's share of evaluating 40,000 devices, which is one
evaluation per distinct projection and a look-up for the rest. Upstream evaluates each device.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter

import msgspec

from allotment.cel import DeviceInput, Selector, compile_selector
from allotment.model.features import Features
from allotment.model.resource import Device
from bench.engine import quantity
from bench.measurement import Measurement, dump
from bench.shapes import SPREAD

ROUNDS = 20
FEATURES = Features(kube="1.36")


class Selectors(msgspec.Struct):
    """The selectors to measure, and the devices to evaluate them on."""

    driver: str
    expressions: list[str]
    devices: list[Device]


def _compile(expression: str) -> tuple[Selector, list[float]]:
    seconds = []
    for number in range(ROUNDS):
        # An additional space each time, because compiled expressions are cached, and the cache is not measured.
        text = expression + " " * number
        begin = perf_counter()
        selector = compile_selector(text, FEATURES, env="new")
        assert selector.estimated_cost
        seconds.append(perf_counter() - begin)
    return selector, seconds


def _evaluate(selector: Selector, inputs: list[DeviceInput]) -> list[float]:
    seconds = []
    for _ in range(ROUNDS):
        begin = perf_counter()
        for device in inputs:
            selector.matches(device)
        seconds.append((perf_counter() - begin) / len(inputs))
    return seconds


def _spread(selector: Selector, inputs: list[DeviceInput]) -> list[float]:
    many = (inputs * (SPREAD // len(inputs) + 1))[:SPREAD]
    seconds = []
    for _ in range(5):
        begin = perf_counter()
        selector.match_all(many)
        seconds.append((perf_counter() - begin) / len(many))
    return seconds


def main(path: Path) -> None:
    """Measure every expression of the file."""
    given = msgspec.json.decode(path.read_bytes(), type=Selectors, dec_hook=quantity)
    inputs = [DeviceInput(given.driver, device) for device in given.devices]
    for expression in given.expressions:
        selector, compiling = _compile(expression)
        print(dump(Measurement(f"compile {expression}", compiling)))
        print(dump(Measurement(f"evaluate {expression}", _evaluate(selector, inputs))))
        print(dump(Measurement(f"spread {expression}", _spread(selector, inputs))))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
