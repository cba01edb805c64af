"""Typed access into the JSON of the Kubernetes API, where an answer is translated into our own values.

A key that is missing and a key that is ``null`` are the same (the API server drops nulls). What has the wrong type
raises ``ShapeError``, which names the path: ``spec.replicas: wanted a whole number, got 'three'``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from autoscaler.ports import InvalidAnswerError

JsonObject = Mapping[str, object]

_NOTHING: Final[JsonObject] = {}


class ShapeError(InvalidAnswerError):
    """A field is missing or has the wrong type."""


def found(source: JsonObject, *path: str) -> object | None:
    """What lies at ``path``; None where a key on the way is missing or null. Raises ShapeError through a non-object."""
    here: object = source
    for depth, key in enumerate(path):
        if here is None:
            return None
        if not isinstance(here, Mapping):
            raise _wrong(path[:depth], "an object", here)
        here = here.get(key)
    return here


def optional_text(source: JsonObject, *path: str) -> str | None:
    """A string, None where it is missing."""
    value = found(source, *path)
    if value is None or isinstance(value, str):
        return value
    raise _wrong(path, "a string", value)


def text(source: JsonObject, *path: str) -> str:
    """A string that must be there."""
    value = optional_text(source, *path)
    if value is None:
        raise ShapeError(f"{'.'.join(path)}: missing")
    return value


def optional_whole(source: JsonObject, *path: str) -> int | None:
    """A whole number, None where it is missing."""
    value = found(source, *path)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(path, "a whole number", value)
    return value


def whole(source: JsonObject, *path: str) -> int:
    """A whole number that must be there."""
    value = optional_whole(source, *path)
    if value is None:
        raise ShapeError(f"{'.'.join(path)}: missing")
    return value


def flag(source: JsonObject, *path: str) -> bool:
    """A boolean; missing is false, as the API's own omitted booleans are."""
    value = found(source, *path)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise _wrong(path, "true or false", value)
    return value


def inner(source: JsonObject, *path: str) -> JsonObject:
    """An object; an empty one where it is missing."""
    value = found(source, *path)
    if value is None:
        return _NOTHING
    if not isinstance(value, Mapping):
        raise _wrong(path, "an object", value)
    return value


def objects(source: JsonObject, *path: str) -> Sequence[JsonObject]:
    """A list of objects; empty where it is missing."""
    value = found(source, *path)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _wrong(path, "a list", value)
    for index, each in enumerate(value):
        if not isinstance(each, Mapping):
            raise _wrong((*path[:-1], f"{path[-1]}[{index}]"), "an object", each)
    return value


def strings(source: JsonObject, *path: str) -> Mapping[str, str]:
    """An object of strings, such as labels; empty where it is missing."""
    value = inner(source, *path)
    for key, each in value.items():
        if not isinstance(each, str):
            raise _wrong((*path, key), "a string", each)
    return value  # type: ignore[return-value]  # checked above; a copy for each pod's labels would cost time


def moment_s(source: JsonObject, *path: str) -> float | None:
    """A time (RFC 3339, as the API's Time and MicroTime) in seconds since the epoch; None where it is missing."""
    value = optional_text(source, *path)
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise _wrong(path, "a time such as 2026-11-30T12:00:00Z", value) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def written_moment(at_s: float) -> str:
    """Seconds since the epoch as a MicroTime: always six decimals, which the API server insists on."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _wrong(path: Sequence[str], wanted: str, got: object) -> ShapeError:
    shown = repr(got)
    return ShapeError(f"{'.'.join(path)}: wanted {wanted}, got {shown if len(shown) <= 80 else f'{shown[:77]}...'}")
