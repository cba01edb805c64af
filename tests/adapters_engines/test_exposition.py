"""The page parser says what prometheus_client says, however often a page comes and whatever changes in it."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from adapters.engines.exposition import MAX_LINES, PageParser, Selector, Series, UnreadablePageError
from autoscaler.domain.reading import UnknownReason

Sample = tuple[str, tuple[tuple[str, str], ...], bytes]


def bits(value: float) -> bytes:
    """Equal for equal numbers, NaN included, and for -0 and 0 not."""
    return struct.pack(">d", math.nan if math.isnan(value) else value)


def stem(name: str) -> str:
    """The library appends "_total" to samples of a declared counter; pages do or don't."""
    return name.removesuffix("_total")


def by_library(page: bytes) -> list[Sample]:
    return [
        (stem(sample.name), tuple(sorted(sample.labels.items())), bits(float(sample.value)))
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    ]


def by_parser(parser: PageParser, page: bytes) -> list[Sample]:
    parsed = parser.parse(page)
    return [
        (stem(series.name), series.labels, bits(value))
        for series, value in zip(parsed.series, parsed.values, strict=True)
    ]


@st.composite
def label_sets(draw: st.DrawFn) -> str:
    names = draw(st.lists(st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,5}", fullmatch=True), unique=True, max_size=3))
    names = [name for name in names if not name.startswith("__")]
    if not names:
        return draw(st.sampled_from(["", "{}", "{ }"]))
    value = st.text(
        st.one_of(st.sampled_from('\\"\n{}=,# '), st.characters(codec="utf-8", exclude_characters="\r")), max_size=8
    )
    terms = []
    for name in names:
        escaped = draw(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        terms.append(f'{name}{draw(st.sampled_from(["=", " = ", "= "]))}"{escaped}"')
    body = draw(st.sampled_from([",", ", ", " ,"])).join(terms)
    return "{" + body + draw(st.sampled_from(["", ",", " "])) + "}"


def number_texts() -> st.SearchStrategy[str]:
    return st.one_of(
        st.sampled_from(["0", "1.0", "+Inf", "-Inf", "Inf", "NaN", "nan", "-1", "1e308", "9007199254740993", "1e400"]),
        st.floats().map(repr),
        st.integers().map(str),
    )


@st.composite
def sample_lines(draw: st.DrawFn, name: str) -> tuple[str, str]:
    """A series with its labels, and what follows."""
    labels = draw(label_sets())
    gap = draw(st.sampled_from([" ", "  ", "\t"])) if not labels else draw(st.sampled_from([" ", "  ", "", "\t"]))
    before = draw(st.sampled_from(["", " "])) if labels else ""
    head = draw(st.sampled_from(["", "", " "])) + name + before + labels + gap
    tail = draw(st.sampled_from(["", "", " 1712345678901", " 5", ' # {trace="a b"} 0.5', " # {} 1 1712345678"]))
    return head, tail


@st.composite
def page_shapes(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Lines as (head, tail); an empty tail marker None in the head means a line without a value."""
    lines: list[tuple[str, str]] = []
    for name in draw(st.lists(st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", fullmatch=True), max_size=5)):
        kind = draw(st.sampled_from(["counter", "gauge", "histogram", "summary", "untyped", None]))
        if draw(st.booleans()):
            lines.append((f"# HELP {name} Help, with {{braces}} and \\n", "no value"))
        if kind is not None:
            lines.append((f"# TYPE {name} {kind}", "no value"))
        suffixes = ["_bucket", "_count", "_sum", "_created"] if kind in ("histogram", "summary") else ["", "_created"]
        if kind == "counter":
            suffixes.append("_total")
        for suffix in draw(st.lists(st.sampled_from(suffixes), max_size=4)):
            one = draw(sample_lines(name + suffix))
            lines.append(one)
            if draw(st.booleans()):
                lines.append(one)  # printed twice, with a value of its own
        lines.extend(draw(st.sampled_from([[], [("", "no value")], [("# a remark", "no value")]])))
    if draw(st.booleans()):
        lines.append(("# EOF", "no value"))
    return lines


def fill(data: st.DataObject, shape: list[tuple[str, str]], end: str) -> bytes:
    lines = [head if tail == "no value" else head + data.draw(number_texts()) + tail for head, tail in shape]
    return "".join([line + end for line in lines]).encode()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), shape=page_shapes(), end=st.sampled_from(["\n", "\r\n"]))
def test_same_samples_as_the_library_at_first_and_when_values_change(
    data: st.DataObject, shape: list[tuple[str, str]], end: str
) -> None:
    parser = PageParser()
    for _ in range(3):
        page = fill(data, shape, end)
        assert by_parser(parser, page) == by_library(page)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), shape=page_shapes(), end=st.sampled_from(["\n", "\r\n"]))
def test_a_selector_takes_the_values_that_a_full_parse_finds(
    data: st.DataObject, shape: list[tuple[str, str]], end: str
) -> None:
    parser = PageParser()
    first = parser.parse(fill(data, shape, end))
    chosen = data.draw(st.lists(st.integers(0, max(0, len(first.series) - 1)), unique=True, max_size=len(first.series)))
    selector = Selector(first.skeleton, chosen)
    page = fill(data, shape, end)
    values = selector.values(page)
    if values is None:  # allowed only where the lines need a closer look
        assert any(tail.startswith(" ") for _, tail in shape)
    else:
        full = by_library(page)
        assert [bits(value) for value in values] == [full[index][2] for index in chosen]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), shape=page_shapes(), other=page_shapes())
def test_a_selector_refuses_or_agrees_with_a_page_of_another_shape(
    data: st.DataObject, shape: list[tuple[str, str]], other: list[tuple[str, str]]
) -> None:
    parser = PageParser()
    first = parser.parse(fill(data, shape, "\n"))
    values = Selector(first.skeleton, range(len(first.series))).values(fill(data, other, "\n"))
    if values is not None:
        parsed = parser.parse(fill(data, other, "\n"))
        assert parsed.series == first.series


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    data=st.data(),
    shape=page_shapes(),
    edits=st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=3), st.integers(0, 3)), max_size=4),
)
def test_what_is_read_from_a_damaged_page_is_what_the_library_reads(
    data: st.DataObject, shape: list[tuple[str, str]], edits: list[tuple[int, bytes, int]]
) -> None:
    parser = PageParser()
    page = fill(data, shape, "\n")
    parser.parse(page)
    for at, put, cut in edits:
        page = page[:at] + put + page[at + cut :]
    page = page if page.endswith(b"\n") else page + b"\n"
    try:
        ours = by_parser(parser, page)
    except UnreadablePageError:
        return
    try:
        theirs = by_library(page)
    except (ValueError, IndexError, OverflowError):
        return  # stricter than we are, about HELP lines
    assert ours == theirs


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        pytest.param(b"a 1\nb{x=", UnknownReason.MALFORMED_PAGE, id="cut inside a line"),
        pytest.param(b"a 1\nb 27", UnknownReason.MALFORMED_PAGE, id="cut inside a number"),
        pytest.param(b"a one\n", UnknownReason.MALFORMED_PAGE, id="a word for a value"),
        pytest.param(b"a 1_000\n", UnknownReason.MALFORMED_PAGE, id="an underscore in a number"),
        pytest.param(b"a\n", UnknownReason.MALFORMED_PAGE, id="no value"),
        pytest.param(b'a{x="1} 1\n', UnknownReason.MALFORMED_PAGE, id="open quote"),
        pytest.param(b'a{x="1",x="2"} 1\n', UnknownReason.MALFORMED_PAGE, id="label given twice"),
        pytest.param(b"\x00\x01\x02\xff\n", UnknownReason.MALFORMED_PAGE, id="binary"),
        pytest.param(b'a{x="\xff"} 1\n', UnknownReason.MALFORMED_PAGE, id="not UTF-8"),
        pytest.param(b"# TYPE a\na 1\n", UnknownReason.MALFORMED_PAGE, id="TYPE without a type"),
        pytest.param(b'a{x="' + b"y" * 20_000 + b'"} 1\n', UnknownReason.PAGE_TOO_LARGE, id="long line"),
        pytest.param(b"\n" * (MAX_LINES + 1), UnknownReason.PAGE_TOO_LARGE, id="many lines"),
        pytest.param(b'a{x="' + b"y" * 999 + b'"} 1\n', None, id="a long label is fine"),
    ],
)
def test_unreadable_pages_are_refused_with_a_reason(page: bytes, reason: UnknownReason | None) -> None:
    if reason is None:
        assert PageParser().parse(page).values == (1.0,)
        return
    with pytest.raises(UnreadablePageError) as refused:
        PageParser().parse(page)
    assert refused.value.reason is reason


def test_too_much_text_of_wanted_series_is_refused_but_not_of_others() -> None:
    page = b"".join([b'a{x="%d%s"} 1\n' % (i, b"y" * 500) for i in range(5_000)])
    assert PageParser({"b"}).parse(page).series == ()
    with pytest.raises(UnreadablePageError) as refused:
        PageParser({"a"}).parse(page)
    assert refused.value.reason is UnknownReason.PAGE_TOO_LARGE


def test_only_wanted_series_are_read_and_all_names_are_noted() -> None:
    page = b'# TYPE a gauge\na{x="1"} 1\nb{y="2"} 2\nb_total 3\na 4 1712345678901\n'
    parsed = PageParser({"a"}).parse(page)
    assert parsed.series == (Series("a", (("x", "1"),)), Series("a", ()))
    assert parsed.values == (1.0, 4.0)
    assert parsed.names == ("a", "b", "b_total")
    assert parsed.types == {"a": "gauge"}


def test_labels_of_unwanted_series_may_change_within_a_skeleton() -> None:
    parser = PageParser({"a"})
    first = parser.parse(b'lora{names="x"} 1\na 1\n')
    again = parser.parse(b'lora{names="x,y"} 2\na 5\n')
    assert first.skeleton == again.skeleton
    assert Selector(first.skeleton, [0]).values(b'lora{names="z"} 9\na 7\n') == [7.0]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(b"a 1\nb 2\nc 3\n", id="a line more"),
        pytest.param(b"a 1\n", id="a line less"),
        pytest.param(b"b 1\na 2\n", id="another order"),
        pytest.param(b'a{x="1"} 1\nb 2\n', id="labels where there were none"),
        pytest.param(b"a 1\nc 2\n", id="another series"),
        pytest.param(b"a 1_0\nb 2\n", id="an underscore in a number"),
        pytest.param(b"a 1 1712345678901\nb 2\n", id="a timestamp"),
        pytest.param(b"a \nb 2\n", id="no value"),
        pytest.param(b"a 1\nb 2\n\n", id="a blank line more"),
        pytest.param(b"# TYPE a gauge\na 1\nb 2\n", id="a type more"),
    ],
)
def test_a_selector_refuses_what_is_not_its_skeleton(page: bytes) -> None:
    selector = Selector(PageParser().parse(b"a 1\nb 2\n").skeleton, [0, 1])
    assert selector.values(b"a 3\nb 4\n") == [3.0, 4.0]
    assert selector.values(page) is None


def test_a_changed_type_is_another_skeleton() -> None:
    selector = Selector(PageParser().parse(b"# TYPE a gauge\na 1\n").skeleton, [0])
    assert selector.values(b"# TYPE a gauge\na 2\n") == [2.0]
    assert selector.values(b"# TYPE a gaugehistogram\na 2\n") is None


def test_ever_changing_labels_fill_no_memory() -> None:
    parser = PageParser({"a"}, cache_bytes=100_000)
    for start in range(0, 20_000, 200):
        parser.parse(b"".join([b'a{x="%d"} 1\nb%d 1\n' % (i, i) for i in range(start, start + 200)]))
        assert parser.held_bytes <= 112_500  # the names' own eighth on top
    assert parser.held_bytes > 50_000


@pytest.mark.parametrize(
    ("line", "value"),
    [
        pytest.param("a 12 # {} 1", 12.0, id="an exemplar"),
        pytest.param(f"a {10**400} # {{}} 1", math.inf, id="an exemplar on more than a float holds"),
        pytest.param(f"a -{10**400} # {{}} 1", -math.inf, id="on less"),
        pytest.param('{"a",x="1"} 3', 3.0, id="the name in quotes among the labels"),
    ],
)
def test_rarer_lines(line: str, value: float) -> None:
    page = PageParser({"a"}).parse(f"{line}\n".encode())
    assert ([one.name for one in page.series], page.values) == (["a"], (value,))
    assert PageParser({"b"}).parse(f"{line}\n".encode()).series == ()


@pytest.mark.parametrize("name", ["overloaded_page", "idle_page", "triton_page"])
def test_real_pages_read_as_the_library_reads_them(name: str, request: pytest.FixtureRequest) -> None:
    page: bytes = request.getfixturevalue(name)
    assert by_parser(PageParser(), page) == by_library(page)


def test_series_print_as_pages_spell_them() -> None:
    line = r'a{x="say \"hi\"\n",y="\\"} 1'
    (series,) = PageParser().parse(line.encode() + b"\n").series
    assert dict(series.labels) == {"x": 'say "hi"\n', "y": "\\"}
    assert f"{series} 1" == line
