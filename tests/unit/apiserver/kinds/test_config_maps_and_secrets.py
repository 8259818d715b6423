from tests.unit.apiserver.shelf import created, manifest, updated, write


def test_immutable_config_maps_cannot_be_changed() -> None:
    old = manifest(data={"a": "1"}, immutable=True)
    assert updated("configmaps", manifest(data={"a": "2"}, immutable=True), old, write())[1] == [
        "data: Forbidden: field is immutable when `immutable` is set"
    ]
    assert updated("configmaps", manifest(data={"a": "1"}), old, write())[1] == [
        "immutable: Forbidden: field is immutable when `immutable` is set"
    ]


def test_string_data_of_a_secret_is_merged_into_data() -> None:
    original = manifest(stringData={"u": "p"})
    result, errors = created("secrets", original, write())
    assert errors == []
    assert (result["data"], result["type"]) == ({"u": "cA=="}, "Opaque")
    assert "stringData" not in result
    assert "stringData" in original


def test_secrets_require_the_keys_of_their_type() -> None:
    assert created("secrets", manifest(type="kubernetes.io/tls"), write())[1] == [
        "data[tls.crt]: Required value",
        "data[tls.key]: Required value",
    ]
