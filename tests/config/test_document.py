"""YAML with lines: what its words mean, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.config.document import MAX_BYTES, DocumentError, Mark, Plain, parse_document, write_document


@pytest.mark.parametrize(
    ("word", "value"),
    [
        pytest.param("on", "on", id="on is text"),
        pytest.param("yes", "yes", id="yes is text"),
        pytest.param("true", True, id="true"),
        pytest.param("010", 10, id="leading zero is decimal"),
        pytest.param("1:30", "1:30", id="no base 60"),
        pytest.param("1e3", 1000.0, id="exponent without a point"),
        pytest.param("-.5", -0.5, id="fraction"),
        pytest.param("2026-11-30", "2026-11-30", id="a date is text"),
        pytest.param("~", None, id="null"),
        pytest.param("'1'", "1", id="quoted number is text"),
        pytest.param("!!str 1", "1", id="told to be text"),
        pytest.param("9" * 40, "9" * 40, id="absurd number is text"),
        pytest.param(".inf", float("inf"), id="infinity"),
        pytest.param("-.inf", float("-inf"), id="minus infinity"),
    ],
)
def test_words_mean_what_yaml_1_2_says(word: str, value: object) -> None:
    assert parse_document(f"key: {word}".encode()).data == {"key": value}


def test_every_value_and_key_knows_its_place() -> None:
    document = parse_document(b"a:\n  - x: 1\n    y: [2, 3]\n")
    assert document.value_mark(("a", 0, "y", 1)) == Mark(3, 12)
    assert document.key_mark(("a", 0, "y")) == Mark(3, 5)
    assert document.value_mark(("a", 0, "nothing")) == Mark(2, 5)


def test_anchors_and_merge_keys_work_and_own_keys_win() -> None:
    document = parse_document(b"base: &b {x: 1, y: 2}\nlist:\n  - {<<: *b, y: 3}\n  - *b\n  - {<<: [{z: 1}, *b]}\n")
    assert document.data == {
        "base": {"x": 1, "y": 2},
        "list": [{"x": 1, "y": 3}, {"x": 1, "y": 2}, {"x": 1, "y": 2, "z": 1}],
    }
    assert document.value_mark(("list", 0, "x")) == Mark(1, 14)


def test_a_key_given_twice_is_told_with_both_lines() -> None:
    document = parse_document(b"a: 1\nb: 2\na: 3\n")
    assert document.faults == ((("a",), Mark(3, 1), "given twice (first in line 1)"),)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        pytest.param(b"a: [1,\nb: 2\n", 3, "while parsing a flow sequence in line 1", id="bracket left open"),
        pytest.param(b"a: 1\n\tb: 2", 2, "not YAML", id="tab"),
        pytest.param(b"a: 1\n---\nb: 2", 2, "second document", id="two documents"),
        pytest.param(b"a: \xff\xfe", 1, "not UTF-8 text (byte 0xff)", id="other encoding"),
        pytest.param(b"a: \x00", 1, "not YAML", id="control character"),
        pytest.param(b"a: *nowhere", 1, "&nowhere is not defined", id="unknown anchor"),
        pytest.param(b"a: &x [*x]", 1, "&x contains itself", id="endless anchor"),
        pytest.param(b"? [a]\n: 1", 1, "a key must be a single word", id="list as key"),
        pytest.param(b"a: " + b"[" * 40 + b"]" * 40, 1, "nested deeper than 24", id="deep"),
        pytest.param(b"a: " + b"[" * 100_000, 1, "nest", id="far too deep"),
        pytest.param(b" " * (MAX_BYTES + 1), 1, "larger than 4 MiB", id="huge"),
    ],
)
def test_unusable_text_is_refused_with_its_line(text: bytes, line: int, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_document(text)
    assert message in caught.value.message
    assert caught.value.mark.line == line


def test_anchors_can_not_grow_a_small_file_without_end() -> None:
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 10)]
    bomb = "\n".join(["l0: &l0 [x]", *levels])
    with pytest.raises(DocumentError, match="holds over 300000 values"):
        parse_document(bomb.encode())


@pytest.mark.parametrize("tag", ["!!python/object:os.system", "!include", "!!binary"])
def test_tags_run_nothing_and_are_told(tag: str) -> None:
    faults = parse_document(f"a: {tag} x".encode()).faults
    assert len(faults) == 1
    assert "have no meaning here" in faults[0][2]


_TEXT = st.text() | st.sampled_from(["1e3", "on", "null", "0x10", "1:30", "~", "", ".inf", "2026-11-30", "- a", "#"])
_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.floats(allow_nan=False, width=32) | _TEXT,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(_TEXT.filter(lambda key: key != "<<"), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(_PLAIN)
def test_what_is_written_is_read_back(value: Plain) -> None:
    assert parse_document(write_document(value).encode()).data == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        mark = parse_document(data).value_mark(())
    except DocumentError as error:
        mark = error.mark
    assert 1 <= mark.line <= data.count(b"\n") + data.count(b"\r") + 2
