"""Label selectors against a reference that is written the slow way round."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.serving.external.selector import SelectorError, parse_selector

KEYS = st.sampled_from(["service", "model", "in", "notin", "a.b/c", "tier", "x_1"])
VALUES = st.sampled_from(["", "chat", "llama-3.1", "in", "notin", "0", "7", "12", "A_b"])
NUMBERS = st.sampled_from(["0", "7", "12", "007", "9223372036854775807"])
LABELS = st.dictionaries(KEYS, VALUES)
SPACE = st.sampled_from(["", " ", "\t ", "\r\n"])

Condition = tuple[str, str, tuple[str, ...]]
CONDITIONS: st.SearchStrategy[Condition] = st.one_of(
    st.tuples(KEYS, st.sampled_from(["=", "==", "!="]), VALUES.map(lambda value: (value,))),
    st.tuples(KEYS, st.sampled_from(["in", "notin"]), st.lists(VALUES, min_size=2, max_size=4).map(tuple)),
    st.tuples(KEYS, st.sampled_from(["exists", "!"]), st.just(())),
    st.tuples(KEYS, st.sampled_from([">", "<"]), NUMBERS.map(lambda value: (value,))),
)


def written(condition: Condition, space: str) -> str:
    key, operator, values = condition
    match operator:
        case "exists":
            return f"{space}{key}{space}"
        case "!":
            return f"{space}!{space}{key}"
        case "in" | "notin":
            return f"{key} {space}{operator}{space}({space}{f'{space},{space}'.join(values)}{space}){space}"
    return f"{key}{space}{operator}{space}{values[0]}{space}"


def holds(condition: Condition, labels: Mapping[str, str]) -> bool:
    """Kubernetes documentation, "Labels and Selectors"; the comparisons from the doc comment of labels.Requirement."""
    key, operator, values = condition
    has = key in labels
    if operator in ("=", "==", "in"):
        return has and labels[key] in values
    if operator in ("!=", "notin"):
        return not has or labels[key] not in values
    if operator in ("exists", "!"):
        return has == (operator == "exists")
    if not has or labels[key] not in ("0", "7", "12"):
        return False
    return int(labels[key]) > int(values[0]) if operator == ">" else int(labels[key]) < int(values[0])


@given(st.lists(CONDITIONS, max_size=4), LABELS, SPACE)
def test_a_selector_means_what_it_says(conditions: list[Condition], labels: dict[str, str], space: str) -> None:
    selector = parse_selector(",".join(written(condition, space) for condition in conditions))
    assert selector.matches(labels) == all(holds(condition, labels) for condition in conditions)


@given(st.text(alphabet="ab=!<>(), in/-.0é\n", max_size=12))
def test_any_text_is_a_selector_or_an_error_that_says_why(text: str) -> None:
    try:
        selector = parse_selector(text)
    except SelectorError as error:
        said = str(error)
    else:
        said = "nothing" if selector.matches({}) in (True, False) else ""
    assert said


@pytest.mark.parametrize(
    ("text", "values"),
    [
        pytest.param("k in (a,)", {"a", ""}, id="nothing before the parenthesis"),
        pytest.param("k in (,a)", {"a", ""}, id="nothing after the parenthesis"),
        pytest.param("k in (a,,b)", {"a", "b", ""}, id="nothing between commas"),
        pytest.param("k in (,)", {""}, id="one comma alone"),
        pytest.param("k in (a,a)", {"a"}, id="the same twice"),
        pytest.param("k=", {""}, id="nothing after ="),
        pytest.param("k=in", {"in"}, id="a word of the grammar as a value"),
    ],
)
def test_empty_and_odd_values(text: str, values: set[str]) -> None:
    (requirement,) = parse_selector(text).requirements
    assert set(requirement.values) == values


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(",", "expected a label's name, got ','", id="comma"),
        pytest.param("a=b,", "a comma must be followed", id="comma last"),
        pytest.param("a=b,,c=d", "expected a label's name", id="two commas"),
        pytest.param("a b", "one of =, ==", id="two words"),
        pytest.param("a=b c", "expected ',', got 'c'", id="two values"),
        pytest.param("a===b", "expected a value of 'a', got '='", id="three ="),
        pytest.param("a>=1", "expected a value", id="at least"),
        pytest.param("a>b", "whole number only, got 'b'", id="above a word"),
        pytest.param("a<", "whole number only, got ''", id="below nothing"),
        pytest.param("a>9223372036854775808", "whole number only", id="above what 64 bits hold"),
        pytest.param("!a=b", "expected ',', got '='", id="absent and equal"),
        pytest.param("!!a", "expected a label's name, got '!'", id="twice absent"),
        pytest.param("!", "got 'the end of the selector'", id="absent what"),
        pytest.param("a in b", "expected '('", id="in without parentheses"),
        pytest.param("a in ()", "at least one value", id="in nothing"),
        pytest.param("a in (b", "expected ','", id="not closed"),
        pytest.param("a in (b c)", "expected ','", id="no comma between values"),
        pytest.param("a in (b))", "expected ','", id="closed twice"),
        pytest.param("(a=b)", "expected a label's name", id="parentheses around"),
        pytest.param("-a=b", "label '-a'", id="name begins with -"),
        pytest.param("a/b/c=d", "DNS name", id="two slashes"),
        pytest.param("/a=b", "DNS name", id="empty prefix"),
        pytest.param("A/a=b", "DNS name", id="prefix in capitals"),
        pytest.param("a/=b", "label 'a/'", id="empty name"),
        pytest.param(f"{'a' * 64}=b", "1 to 63", id="long name"),
        pytest.param(f"a={'b' * 64}", "at most 63", id="long value"),
        pytest.param("a=b/c", "got 'b/c'", id="slash in a value"),
        pytest.param("a=b-", "got 'b-'", id="value ends with -"),
        pytest.param("ä=b", "label 'ä'", id="umlaut"),
        pytest.param("a" * 5000, "at most 4096", id="very long"),
    ],
)
def test_what_is_no_selector(text: str, says: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_selector(text)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "service"),
    [
        pytest.param("service=chat", "chat", id="equal"),
        pytest.param("a=b,service in (chat)", "chat", id="in one"),
        pytest.param("service in (chat,code)", None, id="in two"),
        pytest.param("service!=chat", None, id="unequal"),
        pytest.param("service", None, id="exists"),
        pytest.param("", None, id="everything"),
    ],
)
def test_the_one_value_that_would_do(text: str, service: str | None) -> None:
    assert parse_selector(text).only("service") == service
