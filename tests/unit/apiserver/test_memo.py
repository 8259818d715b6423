from allotment.apiserver.memo import memoized


def test_only_short_texts_are_cached() -> None:
    read: list[str] = []

    @memoized(8)
    def size(text: str, unit: int) -> int:
        read.append(text[:1])
        return len(text) * unit

    assert [size("a", 1), size("a", 1), size("a", 2)] == [1, 1, 2]
    assert [size("b" * 5000, 1), size("b" * 5000, 1)] == [5000, 5000]
    assert read == ["a", "a", "b", "b"]
