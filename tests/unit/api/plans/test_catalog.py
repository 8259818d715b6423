"""The catalog of providers and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment.api.plans.catalog import read_catalog_files, select_catalog
from allotment.errors import InputError

HEAD = "provider,instance_type,vcpu,memory_gib,gpu_count,gpu,on_demand_usd_per_hour"


def test_providers_and_files_in_one_option_or_several(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text(f"{HEAD}\nhome,box,8,64,1,l4,1\n")

    together = select_catalog([f"aws,{own}"])

    assert together.providers == ("aws", "home")
    assert together == select_catalog(["aws", str(own)])
    assert select_catalog([str(own)]).providers == ()
    assert "home/box" in [type_.key for type_ in together.types]


@pytest.mark.parametrize(("word", "hint"), [("asw", "did you mean aws?"), ("aws,zz", "files must end in .csv")])
def test_unknown_provider(word: str, hint: str) -> None:
    with pytest.raises(InputError, match="catalog: unknown provider") as refused:
        select_catalog([word])
    assert hint in refused.value.hint


def test_names_in_one_text() -> None:
    assert select_catalog("aws, gcp") == select_catalog(["aws", "gcp"])


def test_a_provider_is_no_file() -> None:
    with pytest.raises(InputError, match="catalog: file not found: 'aws'") as refused:
        read_catalog_files(["aws"])
    assert refused.value.hint == "to list the types of a provider: allot catalog list aws"


def test_invalid_rows_are_problems(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text(f"{HEAD}\nhome,box,8,64,1,l4,1\nhome,bad,8,64,1,l4,-1\n")
    found = select_catalog([own])
    assert [type_.key for type_ in found.selected_types if type_.provider == "home"] == ["home/box"]
    (problem,) = found.error.problems
    assert (problem.position.file, problem.position.line) == (str(own), 3)
    assert found.error.source(str(own)) == own.read_text()
