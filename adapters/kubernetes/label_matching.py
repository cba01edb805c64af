"""Label selectors and node requirements, and whether labels meet them.

Operators: Kubernetes docs, "Labels and Selectors" and "Assigning Pods to Nodes" (Gt and Lt are for nodes alone).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from adapters.kubernetes.raw_json import JsonObject, ShapeError, found, objects, strings, text


class Operator(StrEnum):
    """How a requirement compares."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One condition on one label. ``values``: those it is compared with; none for EXISTS and DOES_NOT_EXIST."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet it. NOT_IN is met by a label that is missing; GT and LT are not."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
        try:
            number, bound = int(value or ""), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return number > bound if self.operator is Operator.GT else number < bound


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSelector:
    """Requirements that must all be met. Without any it matches nothing here: whose pods would all be?"""

    requirements: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is meant."""
        return bool(self.requirements) and all(each.matches(labels) for each in self.requirements)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTerm:
    """One alternative of a required node affinity: label requirements and fields (metadata.name), all to be met."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def matches(self, *, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node of this name and these labels will do. A term without any condition matches no node."""
        fields = {"metadata.name": name}
        return bool(self.labels or self.fields) and (
            all(each.matches(labels) for each in self.labels) and all(each.matches(fields) for each in self.fields)
        )


def equal_labels(labels: Mapping[str, str]) -> LabelSelector:
    """The selector of objects that have all these labels."""
    return LabelSelector(
        requirements=tuple(
            Requirement(key=key, operator=Operator.IN, values=(value,)) for key, value in sorted(labels.items())
        )
    )


def selector_of(source: JsonObject) -> LabelSelector:
    """A ``LabelSelector`` object (matchLabels, matchExpressions). Raises ShapeError."""
    return LabelSelector(
        requirements=equal_labels(strings(source, "matchLabels")).requirements
        + tuple(requirement_of(each) for each in objects(source, "matchExpressions"))
    )


def requirement_of(source: JsonObject) -> Requirement:
    """A {key, operator, values} object. Raises ShapeError."""
    operator, values = text(source, "operator"), found(source, "values")
    if operator not in set(Operator):
        raise ShapeError(f"operator: wanted one of {', '.join(Operator)}, got {operator!r}")
    listed = values if isinstance(values, list) else []
    return Requirement(
        key=text(source, "key"), operator=Operator(operator), values=tuple(str(value) for value in listed)
    )


_SET = re.compile(r"^(?P<key>\S+)\s+(?P<operator>in|notin)\s+\((?P<values>[^()]*)\)$")
_COMPARED = re.compile(r"^(?P<key>[^\s=!<>]+)\s*(?P<operator>==|=|!=|>|<)\s*(?P<value>[^\s=!<>]*)$")
_BARE = re.compile(r"^(?P<not>!?)\s*(?P<key>[^\s=!<>(),]+)$")
_COMMA = re.compile(r",(?![^()]*\))")  # not those between parentheses
_OPERATORS = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.IN,
    "==": Operator.IN,
    "!=": Operator.NOT_IN,
    ">": Operator.GT,
    "<": Operator.LT,
}


def written_selector(selector: str) -> LabelSelector:
    """A selector in its string form, as in ``status.selector`` of a Scale ("app=llm,tier in (a,b),!canary").

    Raises ShapeError.
    """
    parts = [part.strip() for part in _COMMA.split(selector) if part.strip()]
    return LabelSelector(requirements=tuple(_written(part, selector) for part in parts))


def _written(part: str, selector: str) -> Requirement:
    if matched := _SET.match(part):
        values = tuple(value.strip() for value in matched["values"].split(","))
        return Requirement(key=matched["key"], operator=_OPERATORS[matched["operator"]], values=values)
    if matched := _COMPARED.match(part):
        return Requirement(key=matched["key"], operator=_OPERATORS[matched["operator"]], values=(matched["value"],))
    if matched := _BARE.match(part):
        return Requirement(key=matched["key"], operator=Operator.DOES_NOT_EXIST if matched["not"] else Operator.EXISTS)
    raise ShapeError(f"selector {selector!r}: {part!r} is no requirement")
