"""Misspelled and informal names, as users type them."""

from __future__ import annotations

import re
from random import Random
from typing import Final

from tests.storm.advice.worlds import Inapplicable


def misspelled(random: Random, text: str) -> str:
    """The text with two letters exchanged, one left out, or one typed twice.

    >>> misspelled(Random(1), "memory") != "memory"
    True
    """
    places = [at for at in range(1, len(text) - 1) if text[at].isalpha() and text[at + 1].isalpha()]
    if not places:
        raise Inapplicable
    at = random.choice(places)
    match random.randint(0, 2):
        case 0 if text[at] != text[at + 1]:
            return f"{text[:at]}{text[at + 1]}{text[at]}{text[at + 2 :]}"
        case 1:
            return text[:at] + text[at + 1 :]
    return f"{text[: at + 1]}{text[at:]}"


#: Words of product names that look like models.
_FORMS: Final = ("SXM4", "HBM3")


def informal_name(random: Random, product: str) -> str:
    """A product's name without vendor and form factor.

    >>> informal_name(Random(1), "NVIDIA A100-SXM4-80GB") in ("A100-80GB", "A100 80GB", "A100")
    True
    """
    words = re.findall(r"[A-Za-z0-9]+", product)
    models: list[str] = [word for word in words if re.fullmatch(r"[A-Z]+[0-9]+[A-Z]*", word) and word not in _FORMS]
    if not models:
        raise Inapplicable
    model = models[0]
    sizes: list[str] = [word for word in words if re.fullmatch(r"[0-9]+GB", word)]
    return random.choice("- ").join([model, *sizes[:1]])
