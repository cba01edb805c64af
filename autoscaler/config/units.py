"""Durations ("500ms", "1m30s", 0.5) and sizes ("64MiB") as a file writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

_SECONDS = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
}
_DURATION_PART = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)(ns|us|ms|s|m|h|d)")
_DURATION_PATTERN = r"^([0-9]{1,15}(\.[0-9]{1,15})?(ns|us|ms|s|m|h|d))+$"
_BYTES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_BYTES_PATTERN = r"^([0-9]{1,15})(k|M|G|Ki|Mi|Gi)?B?$"
_MAX_TEXT = 64


def parse_duration(text: str) -> float:
    """Seconds of ``"500ms"``, ``"2s"``, ``"1h30m"``. Raises ValueError."""
    if len(text) > _MAX_TEXT or not re.fullmatch(_DURATION_PATTERN, text):
        raise ValueError('not a duration such as "500ms", "2s" or "1m30s"')
    return float(sum(Decimal(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(text)))


def format_duration(seconds: float) -> str:
    """The shortest text that ``parse_duration`` reads as exactly ``seconds`` (which is finite and not negative)."""
    exact = Decimal(repr(float(seconds)))
    if exact == exact.to_integral_value():
        rest, parts = int(exact), []
        for unit in ("d", "h", "m", "s"):
            count, rest = divmod(rest, int(_SECONDS[unit]))
            parts += [f"{count}{unit}"] if count else []
        return "".join(parts) or "0s"
    unit = next((unit for unit in ("s", "ms", "us") if exact >= _SECONDS[unit]), "ns")
    return f"{(exact / _SECONDS[unit]).normalize():f}{unit}"


def parse_bytes(text: str) -> int:
    """Bytes of ``"64MiB"``, ``"64Mi"``, ``"500k"``. Raises ValueError."""
    match = re.fullmatch(_BYTES_PATTERN, text)
    if match is None:
        raise ValueError('not a size such as "64MiB" or "500k"')
    return int(match[1]) * _BYTES[match[2] or ""]


def format_bytes(count: int) -> str:
    """The shortest text that ``parse_bytes`` reads as exactly ``count``."""
    for unit in ("Gi", "Mi", "Ki"):
        if count and count % _BYTES[unit] == 0:
            return f"{count // _BYTES[unit]}{unit}B"
    return str(count)


def _limits(above: float | None, at_least: float | None, at_most: float, text: Any) -> str:
    lower = f"of more than {text(above)}" if above is not None else f"of at least {text(at_least or 0)}"
    return f"{lower} and at most {text(at_most)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """Marks a field in seconds that a file gives as a number of seconds or as text with units."""

    above_s: float | None = None
    at_least_s: float | None = None
    at_most_s: float = 366 * 86400.0

    def read(self, value: object) -> float:
        """Seconds. Raises ValueError."""
        if isinstance(value, str):
            seconds = parse_duration(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            seconds = float(value)
        else:
            raise ValueError("not a duration")
        lowest_fits = seconds > self.above_s if self.above_s is not None else seconds >= (self.at_least_s or 0.0)
        if not (lowest_fits and seconds <= self.at_most_s):
            raise ValueError("out of range")
        return seconds

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.read,
            serialization=core_schema.plain_serializer_function_ser_schema(format_duration, when_used="json"),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        lower = {"exclusiveMinimum": self.above_s} if self.above_s is not None else {"minimum": self.at_least_s or 0}
        limits = _limits(self.above_s, self.at_least_s, self.at_most_s, format_duration)
        return {
            "anyOf": [
                {"type": "number", **lower, "maximum": self.at_most_s},
                {"type": "string", "pattern": _DURATION_PATTERN, "maxLength": _MAX_TEXT},
            ],
            "x-unit": "seconds",
            "x-form": f"a duration {limits}",
            "x-example": '"500ms", "1m30s" or 0.5 (seconds)',
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteSize:
    """Marks a field in bytes that a file gives as a number or as text with units."""

    at_least: int
    at_most: int

    def read(self, value: object) -> int:
        """Bytes. Raises ValueError."""
        if isinstance(value, str):
            count = parse_bytes(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            count = value
        else:
            raise ValueError("not a size")
        if not self.at_least <= count <= self.at_most:
            raise ValueError("out of range")
        return count

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.read,
            serialization=core_schema.plain_serializer_function_ser_schema(format_bytes, when_used="json"),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        limits = f"from {format_bytes(self.at_least)} to {format_bytes(self.at_most)}"
        return {
            "anyOf": [
                {"type": "integer", "minimum": self.at_least, "maximum": self.at_most},
                {"type": "string", "pattern": _BYTES_PATTERN, "maxLength": _MAX_TEXT},
            ],
            "x-unit": "bytes",
            "x-form": f"a size {limits}",
            "x-example": '"64MiB" or a number of bytes',
        }
