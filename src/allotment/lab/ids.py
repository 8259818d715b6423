"""Where the lab's uids and the ends of generated names come from: chance. Tests bring their own."""

from __future__ import annotations

import os
import uuid
from random import Random
from typing import Final

#: As Kubernetes writes them: no vowels, so no words; nothing that looks like something else.
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


class RandomIds:
    """One source for a whole lab; ``seed`` makes what it gives repeatable."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = Random(os.urandom(16) if seed is None else seed)

    def uid(self) -> str:
        """A fresh UUID, version 4.

        >>> len(RandomIds(seed=1).uid())
        36
        """
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def suffix(self) -> str:
        """Five fresh characters.

        >>> len(RandomIds().suffix())
        5
        """
        return "".join(self._random.choices(_LETTERS, k=5))
