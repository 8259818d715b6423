import pytest

from allotment.cluster.errors import StatusError
from tests.unit.apiserver.shelf import Shelf, created, manifest, write


def test_quotas_apply_to_every_kind() -> None:
    quota = manifest("q", spec={"hard": {"count/configmaps": "0"}})
    with pytest.raises(StatusError, match="exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=0"):
        created("configmaps", manifest(), write(Shelf([("resourcequotas", quota)])))
