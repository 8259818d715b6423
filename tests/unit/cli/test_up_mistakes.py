"""What goes wrong around a lab, and whose matter it is."""

from __future__ import annotations

import errno

import pytest

from allotment.cli.output.errors import Mistake
from allotment.cli.up import mistakes


def test_a_reader_that_has_gone_is_nobodys_mistake() -> None:
    with pytest.raises(BrokenPipeError), mistakes("default"):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_a_port_that_is_taken_is_told_with_a_way_on() -> None:
    with pytest.raises(Mistake, match="Address already in use") as told, mistakes("default"):
        raise OSError(errno.EADDRINUSE, "Address already in use")
    assert "--port" in told.value.hint
