"""The custom resource definition obeys the API server's rules for schemas, as far as Python can tell.

That a real API server takes it, and that its expressions refuse what they should, is in tests/cluster.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from autoscaler.cli import app
from autoscaler.config.resource_crd import custom_resource_definition
from autoscaler.config.resource_reading import parse_resource
from autoscaler.config.resource_structure import DURATION_PATTERN, go_duration
from autoscaler.config.units import parse_duration

Schema = dict[str, Any]
VERSION: Schema = custom_resource_definition()["spec"]["versions"][0]
ROOT: Schema = VERSION["schema"]["openAPIV3Schema"]
# What says something about values only; inside it nothing may say what a place is
# (apiextensions.k8s.io/v1, structural schemas).
LOGICAL = ("allOf", "anyOf", "oneOf", "not")


def _places(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every place of the schema with its path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from _places(child, f"{path}.{name}")
    if "items" in schema:
        yield from _places(schema["items"], f"{path}[]")


PLACES = [pytest.param(path, schema, id=path or "root") for path, schema in _places(ROOT)]


@pytest.mark.parametrize(("path", "schema"), PLACES)
def test_every_place_is_structural(path: str, schema: Schema) -> None:
    either = schema.get("x-kubernetes-int-or-string", False)
    assert ("type" in schema) is not either
    assert "$ref" not in schema
    for word in LOGICAL:
        for part in schema.get(word, []):
            allowed = {"type"} if either else set()
            assert part.keys() - allowed <= {"required", "minimum", "maximum", "pattern", "enum"}
    assert set(schema.get("required", ())) <= schema.get("properties", {}).keys()
    assert isinstance(schema.get("exclusiveMinimum", True), bool), "OpenAPI 3.0: a flag beside the limit"
    assert isinstance(schema.get("exclusiveMaximum", True), bool)


@pytest.mark.parametrize(("path", "schema"), [each for each in PLACES if str(each.id).startswith(".spec")])
def test_every_place_of_the_spec_is_bounded(path: str, schema: Schema) -> None:
    """Without bounds the API server refuses expressions for what they could cost."""
    if schema.get("type") == "string" or schema.get("x-kubernetes-int-or-string"):
        assert "enum" in schema or schema["maxLength"] > 0
    if schema.get("type") == "array":
        assert schema["maxItems"] > 0


@pytest.mark.parametrize(("path", "schema"), PLACES)
def test_patterns_are_such_as_go_reads(path: str, schema: Schema) -> None:
    pattern = schema.get("pattern", "")
    re.compile(pattern)
    assert not re.search(r"\(\?[=!<]|\\[1-9]", pattern), "no looking around, no back-references"
    assert all(int(times) <= 1000 for times in re.findall(r"\{\d*,?(\d+)\}", pattern)), "RE2 repeats 1000 times"


@pytest.mark.parametrize(("path", "schema"), [each for each in PLACES if "." in str(each.id)[1:]])
def test_every_key_says_what_it_means(path: str, schema: Schema) -> None:
    if not path.endswith("[]"):
        assert schema["description"].endswith(".")


@pytest.mark.parametrize(("path", "schema"), PLACES)
def test_lists_by_key_have_their_keys(path: str, schema: Schema) -> None:
    if schema.get("x-kubernetes-list-type") == "map":
        assert set(schema["x-kubernetes-list-map-keys"]) <= set(schema["items"]["required"])


@pytest.mark.parametrize("column", VERSION["additionalPrinterColumns"], ids=lambda column: column["name"])
def test_columns_show_something(column: Schema) -> None:
    here = ROOT
    steps = re.findall(r"\.(\w+)|\[\?\(@\.type==\"(\w+)\"\)\]", column["jsonPath"])
    for name, condition in steps:
        if condition:
            assert condition in here["description"]
            here = here["items"]
        elif name == "creationTimestamp":
            return
        else:
            here = here["properties"][name]
    if column["type"] != "date":
        assert here["type"] == column["type"]


def test_no_autoscaler_can_take_it_for_a_target() -> None:
    assert VERSION["subresources"] == {"status": {}}


def _with_defaults(schema: Schema, value: Any) -> Any:
    """As the API server fills defaults in: from the outside to the inside."""
    if isinstance(value, dict):
        filled = dict(value)
        for name, child in schema.get("properties", {}).items():
            if name not in filled and "default" in child:
                filled[name] = copy.deepcopy(child["default"])
            if name in filled:
                filled[name] = _with_defaults(child, filled[name])
        return filled
    if isinstance(value, list):
        return [_with_defaults(schema["items"], each) for each in value]
    return value


def test_the_command_line_prints_it() -> None:
    printed = CliRunner().invoke(app, ["schema", "--resource"])
    assert printed.exit_code == 0
    assert yaml.safe_load(printed.stdout) == custom_resource_definition()


EXAMPLES = [
    pytest.param(each, id=f"{path.name} {each['metadata']['name']}")
    for path in sorted(Path("examples/kubernetes").glob("inferenceautoscaler*.yaml"))
    for each in yaml.safe_load_all(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_defaults_mean_what_leaving_out_means(example: Schema) -> None:
    filled = _with_defaults(ROOT, example)
    assert filled["spec"]["idle"]["minUptimeFactor"] == 2
    assert filled["spec"]["metrics"]["path"] == "/metrics"
    assert parse_resource(filled) == parse_resource(example)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_and_their_defaults_are_valid(example: Schema) -> None:
    jsonschema.Draft4Validator(ROOT).validate(_with_defaults(ROOT, example))


@given(st.floats(min_value=0, max_value=366 * 86400.0).map(lambda seconds: round(seconds, 9)))
def test_durations_are_written_as_go_reads_them(seconds: float) -> None:
    text = go_duration(seconds)
    assert re.fullmatch(DURATION_PATTERN, text)
    assert round(parse_duration(text) * 1e9) == round(seconds * 1e9)
