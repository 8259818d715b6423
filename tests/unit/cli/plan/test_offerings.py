"""Parsing of ``--catalog``."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment.cli.plan.offerings import offered
from allotment.errors import InputError

HEAD = "provider,instance_type,vcpu,memory_gib,gpu_count,gpu,on_demand_usd_per_hour"


def test_providers_and_files_in_one_option_or_several(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text(f"{HEAD}\nhome,box,8,64,1,l4,1\n")

    together = offered([f"aws,{own}"])

    assert together.providers == ("aws", "home")
    assert together == offered(["aws", str(own)])
    assert offered([str(own)]).providers == ()
    assert "home/box" in [type_.key for type_ in together.catalog.types]


@pytest.mark.parametrize(("word", "hint"), [("asw", "did you mean aws?"), ("aws,zz", "files must end in .csv")])
def test_unknown_provider(word: str, hint: str) -> None:
    with pytest.raises(InputError, match="--catalog: unknown provider") as refused:
        offered([word])
    assert hint in refused.value.hint
