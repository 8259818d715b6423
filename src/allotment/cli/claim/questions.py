"""The questions of ``allot claim`` on a terminal, with the devices of the hardware as choices."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import NamedTuple

from allotment.errors import InputError
from allotment.model.validation.claim_status import RESULTS_MAX
from allotment.tools.claims.supply import DIALECTS, REAL_VENDORS, DeviceKind, Supply


class _Choice(NamedTuple):
    """An answer: its text, and the options that it stands for."""

    text: str
    options: dict[str, object]


def prompt_for_options(arguments: Namespace, supply: Supply) -> None:
    """Prompt for the required devices, and set the options of the answers. Raises InputError at the end of input."""
    _apply(arguments, _choose("Which GPU?", _gpus(supply)))
    kinds = [kind for kind in supply.kinds if _fits(arguments, kind)]
    parts = _parts(kinds, supply)
    if len(parts) > 1:
        _apply(arguments, _choose("Whole GPUs, or a part?", parts))
    if not arguments.share:
        arguments.gpus = _number("How many for each pod?")
    if (arguments.gpus or 1) > 1 and arguments.mig is None:
        same = [_Choice("anywhere on the node", {}), _Choice("under one PCIe switch", {"same_switch": True})]
        _apply(arguments, _choose("Where?", same))


def _gpus(supply: Supply) -> list[_Choice]:
    """The products of the given hardware; for all known hardware, the sizes of memory."""
    kinds = [kind for kind in supply.kinds if kind.part == "whole"] or list(supply.kinds)
    if supply.given:
        products = {kind.product: kind for kind in kinds}
        chosen = [
            _Choice(
                f"{product.replace('_', ' ')}, {kind.size.advertised} GB", {"model": product, "vendor": kind.vendor}
            )
            for product, kind in products.items()
        ]
        return [_Choice("any of the hardware", {"gpus": 1}), *chosen] if len(chosen) > 1 else chosen
    vendors = {"any": "any vendor", **{name: DIALECTS[name].title for name in REAL_VENDORS}}
    return [
        *(_Choice(f"any GPU of {title}", {"vendor": name}) for name, title in vendors.items()),
        *(
            _Choice(f"NVIDIA with {size} GB or more", {"vendor": "nvidia", "memory": f"{size}GB"})
            for size in sorted({kind.size.advertised for kind in kinds if kind.vendor == "nvidia"})
        ),
    ]


def _fits(arguments: Namespace, kind: DeviceKind) -> bool:
    vendor = arguments.vendor in (None, "any", kind.vendor)
    return vendor and arguments.model in (None, kind.product)


def _parts(kinds: Sequence[DeviceKind], supply: Supply) -> list[_Choice]:
    whole = [_Choice("whole GPUs", {})] if any(kind.part == "whole" for kind in kinds) else []
    if not supply.given:
        return whole
    shares = [_Choice(f"a share of {size}", {"share": size}) for size in ("1/2", "1/4")]
    profiles = dict.fromkeys((kind.part, kind.profile) for kind in kinds if kind.part != "whole")
    return [
        *whole,
        *(_Choice(f"{profile} ({part})", {part: profile}) for part, profile in profiles),
        *(shares if any(kind.shared for kind in kinds) else ()),
    ]


def _apply(arguments: Namespace, choice: _Choice) -> None:
    for name, value in choice.options.items():
        setattr(arguments, name, value)


def _choose(question: str, choices: Sequence[_Choice]) -> _Choice:
    """Prompt until the answer is one of the numbers; an empty answer is the first choice."""
    if len(choices) == 1:
        return choices[0]
    print(question)
    for number, choice in enumerate(choices, 1):
        print(f"  {number}  {choice.text}")
    while True:
        text = _answer(f"1-{len(choices)} [1]: ") or "1"
        if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= len(choices):
            return choices[int(text[:9]) - 1]
        print(f"expected a number from 1 to {len(choices)}, found {text!r}")


def _number(question: str) -> int:
    while True:
        text = _answer(f"{question} [1]: ") or "1"
        if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= RESULTS_MAX:
            return int(text[:9])
        print(f"expected a number from 1 to {RESULTS_MAX}, found {text!r}")


def _answer(prompt: str) -> str:
    try:
        return input(prompt).strip()
    except EOFError:
        raise InputError("the input ended before all questions were answered", "see allot claim --help") from None
