"""JSON schema of sections -> the structural OpenAPI v3 schema that the API server asks of a custom resource.

Structural: every place has one type, references are written out, and what values may be says nothing about types
(https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema).
Every string and list is bounded, so that the cost of the expressions that look at them is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from autoscaler.config.fields import Section
from autoscaler.config.resource_rules import Expression
from autoscaler.config.shape import JsonSchema, Key, root_of, section_schema

# As time.ParseDuration of Go reads it, which the expressions use: no days.
DURATION_PATTERN = r"^([0-9]{1,15}(\.[0-9]{1,15})?(ns|us|ms|s|m|h))+$"
_DURATION_CHARS = 64
_INT32_MAX = 2**31 - 1
_VALUES = ("enum", "minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "maxItems", "format")


def structural(section: type[Section], expressions: Mapping[str, Sequence[Expression]]) -> dict[str, Any]:
    """The structural schema of a section; ``expressions``: the rules by the name of the section they stand on."""
    schema = section_schema(section)
    top = root_of({"$defs": {}, **schema})
    return _described(_Writer(expressions).object(top, kind=section.__name__), str(schema.get("description", "")))


class _Writer:
    """Keys -> schema."""

    def __init__(self, expressions: Mapping[str, Sequence[Expression]]) -> None:
        self._expressions = expressions

    def object(self, key: Key, *, kind: str) -> dict[str, Any]:
        """A mapping with known keys; ``kind``: the name of its section."""
        required = [name for name, child in key.children() if key.required(name) and "default" not in child.schema]
        written: dict[str, Any] = {"type": "object"}
        if required:
            written["required"] = required
        written["properties"] = {name: self.property(child) for name, child in key.children()}
        rules = self._expressions.get(kind, ())
        if rules:
            written["x-kubernetes-validations"] = [_rule(each) for each in rules]
        return written

    def property(self, key: Key) -> dict[str, Any]:
        """One key, with what it means and its default."""
        written = self.value(key)
        default = _default(key)
        if default is not None:
            written["default"] = default
        return _described(written, _meaning(key))

    def value(self, key: Key) -> dict[str, Any]:
        """What stands at a key."""
        schema = key.schema
        if schema.get("x-unit") == "seconds":
            return _duration(schema)
        if schema.get("properties"):
            return self.object(key, kind=key.kind)
        if schema.get("type") == "object":
            return self._mapping(key)
        if schema.get("type") == "array":
            return self._list(key)
        if "type" not in schema and "anyOf" in schema:
            return _int_or_string(schema["anyOf"])
        return _scalar(schema)

    def _mapping(self, key: Key) -> dict[str, Any]:
        """Keys that the user chooses: an API server checks their number, and their values."""
        entry = key.child("")
        assert entry is not None
        written = _some(key.schema, "minProperties", "maxProperties")
        return {"type": "object", **written, "additionalProperties": self.value(entry)}

    def _list(self, key: Key) -> dict[str, Any]:
        item = key.child(0)
        assert item is not None
        map_keys = key.schema.get("x-map-keys") or (["name"] if item.required("name") else None)
        written = {"type": "array", **_some(key.schema, "minItems", "maxItems"), "items": self.value(item)}
        if map_keys:
            written |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": map_keys}
        else:
            written["x-kubernetes-list-type"] = "atomic"
        return written


def _described(written: dict[str, Any], text: str) -> dict[str, Any]:
    return {"description": text.replace("``", ""), **written} if text else written


def _meaning(key: Key) -> str:
    """Its description; for lengths of time with how one is written."""
    timed = key.schema.get("x-unit") == "seconds" and key.section is None
    return f"{key.description} A duration such as 500ms, 2s or 1m30s." if timed else key.description


def _default(key: Key) -> object:
    """As an object would have it; that of a mapping is empty, its keys have their own."""
    if key.schema.get("default") is None:
        return None
    if key.schema.get("properties"):
        return {}
    if key.schema.get("x-unit") == "seconds":
        return go_duration(key.schema["default"])
    return key.schema["default"]


def _duration(schema: JsonSchema) -> dict[str, Any]:
    number = schema["anyOf"][0]
    above, least, most = number.get("exclusiveMinimum"), number.get("minimum"), number["maximum"]
    lower = f"duration(self) > duration('{go_duration(above)}')" if above is not None else None
    if lower is None and least:
        lower = f"duration(self) >= duration('{go_duration(least)}')"
    upper = f"duration(self) <= duration('{go_duration(most)}')"
    words = f"of more than {go_duration(above)} and " if above is not None else ""
    words = words or (f"of at least {go_duration(least)} and " if least else "of ")
    rule = Expression(
        rule=f"{lower} && {upper}" if lower else upper,
        message=f"must be a duration {words}at most {go_duration(most)}",
    )
    return {
        "type": "string",
        "pattern": DURATION_PATTERN,
        "maxLength": _DURATION_CHARS,
        "x-kubernetes-validations": [_rule(rule)],
    }


def go_duration(seconds: float) -> str:
    """``seconds``, to the nanosecond, as Go reads it: whole units where they are whole, else a fraction of seconds."""
    nanoseconds = round(seconds * 1e9)
    for unit, size in (("h", 3600 * 10**9), ("m", 60 * 10**9), ("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if nanoseconds and nanoseconds % size == 0:
            return f"{nanoseconds // size}{unit}"
    return f"{(Decimal(nanoseconds) / 10**9).normalize():f}s"


def _int_or_string(choices: Sequence[JsonSchema]) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    for choice in choices:
        limits |= _some(choice, *_VALUES)
    return {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], **limits}


def _scalar(schema: JsonSchema) -> dict[str, Any]:
    written: dict[str, Any] = {"type": schema["type"], **_some(schema, *_VALUES)}
    if schema["type"] == "integer":
        written["format"] = "int32" if schema.get("maximum", _INT32_MAX + 1) <= _INT32_MAX else "int64"
    for exclusive, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if exclusive in schema:  # a number in JSON schema 2020-12, a flag beside the limit in OpenAPI 3.0
            written |= {plain: schema[exclusive], exclusive: True}
    return written


def _some(schema: JsonSchema, *names: str) -> dict[str, Any]:
    return {name: schema[name] for name in names if name in schema}


def _rule(expression: Expression) -> dict[str, Any]:
    written: dict[str, Any] = {"rule": expression.rule, "message": expression.message}
    if expression.told is not None:
        written["messageExpression"] = expression.told
    if expression.field is not None:
        written["fieldPath"] = expression.field
    return written
