"""Typed access into raw JSON: what is missing, what is null, and what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.kubernetes.raw_json import (
    JsonObject,
    ShapeError,
    flag,
    found,
    inner,
    moment_s,
    objects,
    optional_text,
    optional_whole,
    strings,
    text,
    whole,
    written_moment,
)

SOURCE: JsonObject = json.loads(
    '{"a": {"text": "x", "whole": 0, "flag": true, "list": [{"n": 1}], "labels": {"k": "v"}, "null": null,'
    ' "at": "1970-01-01T00:01:40Z", "micro": "1970-01-01T00:01:40.250000Z", "float": 1.5, "mixed": [{}, 3]}}'
)
READERS = (text, optional_text, whole, optional_whole, flag, inner, objects, strings, moment_s)


@pytest.mark.parametrize(
    ("read", "path", "expected"),
    [
        pytest.param(found, "a.list", [{"n": 1}], id="found"),
        pytest.param(found, "a.null.deeper", None, id="through null"),
        pytest.param(text, "a.text", "x", id="text"),
        pytest.param(optional_text, "a.null", None, id="null text"),
        pytest.param(optional_text, "b.c.d", None, id="missing text"),
        pytest.param(whole, "a.whole", 0, id="whole"),
        pytest.param(optional_whole, "a.none", None, id="missing whole"),
        pytest.param(flag, "a.flag", True, id="flag"),
        pytest.param(flag, "a.none", False, id="missing flag"),
        pytest.param(inner, "a.labels", {"k": "v"}, id="inner"),
        pytest.param(inner, "a.none", {}, id="missing inner"),
        pytest.param(objects, "a.list", [{"n": 1}], id="objects"),
        pytest.param(objects, "a.null", (), id="null objects"),
        pytest.param(strings, "a.labels", {"k": "v"}, id="strings"),
        pytest.param(moment_s, "a.at", 100.0, id="time"),
        pytest.param(moment_s, "a.micro", 100.25, id="time with microseconds"),
        pytest.param(moment_s, "a.none", None, id="missing time"),
    ],
)
def test_what_is_read(read: Callable[..., object], path: str, expected: object) -> None:
    assert read(SOURCE, *path.split(".")) == expected


@pytest.mark.parametrize(
    ("read", "path", "says"),
    [
        pytest.param(text, "a.none", "a.none: missing", id="missing text"),
        pytest.param(whole, "a.null", "a.null: missing", id="null whole"),
        pytest.param(text, "a.whole", "a.whole: wanted a string, got 0", id="text"),
        pytest.param(whole, "a.flag", "a.flag: wanted a whole number, got True", id="a flag is no number"),
        pytest.param(whole, "a.float", "a.float: wanted a whole number, got 1.5", id="whole"),
        pytest.param(flag, "a.text", "a.text: wanted true or false, got 'x'", id="flag"),
        pytest.param(inner, "a.list", "a.list: wanted an object, got [{'n': 1}]", id="inner"),
        pytest.param(objects, "a.labels", "a.labels: wanted a list, got {'k': 'v'}", id="objects"),
        pytest.param(objects, "a.mixed", "a.mixed[1]: wanted an object, got 3", id="one of the objects"),
        pytest.param(strings, "a", "a.whole: wanted a string, got 0", id="one of the strings"),
        pytest.param(moment_s, "a.text", "a.text: wanted a time such as 2026-11-30T12:00:00Z, got 'x'", id="time"),
        pytest.param(text, "a.text.deeper", "a.text: wanted an object, got 'x'", id="through a string"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(read: Callable[..., object], path: str, says: str) -> None:
    with pytest.raises(ShapeError) as caught:
        read(SOURCE, *path.split("."))
    assert str(caught.value) == says


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from("abc"), inside, max_size=3),
)


@given(
    source=st.dictionaries(st.sampled_from("abc"), _json, max_size=3),
    path=st.lists(st.sampled_from("abc"), min_size=1, max_size=4),
    read=st.sampled_from(READERS),
)
def test_whatever_is_read_gives_a_value_or_a_shape_error(
    source: JsonObject, path: list[str], read: Callable[..., object]
) -> None:
    wrong = ""
    try:
        read(source, *path)
    except ShapeError as error:
        wrong = str(error)
    assert wrong.startswith(path[0] if wrong else "")


@given(st.floats(0.0, 4e9))
def test_a_written_time_is_read_back(at_s: float) -> None:
    written = written_moment(at_s)
    assert len(written) == len("2026-11-30T12:00:00.000000Z")
    assert moment_s({"at": written}, "at") == pytest.approx(at_s, abs=2e-6)
