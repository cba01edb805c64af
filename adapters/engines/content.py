"""Is a body a metrics page at all? What else servers put at such addresses, and what to tell the user then."""

from __future__ import annotations

import json

from autoscaler.domain.reading import Unknown, UnknownReason

_JSON_HINT = "JSON, no metrics page; trtllm-serve has its metrics page at /prometheus/metrics"
_HTML_HINT = "HTML, no metrics page; is this the right port, or a proxy's own answer?"
_PROTOBUF_HINT = "protobuf; only the text format is read"


def wrong_type(content_type: str) -> Unknown | None:
    """Unknown(WRONG_CONTENT) where the Content-Type says that this is no metrics page in text."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return Unknown(UnknownReason.WRONG_CONTENT, _JSON_HINT)
    if kind in ("text/html", "application/xhtml+xml"):
        return Unknown(UnknownReason.WRONG_CONTENT, _HTML_HINT)
    if "protobuf" in kind:
        return Unknown(UnknownReason.WRONG_CONTENT, _PROTOBUF_HINT)
    return None


def explain_malformed(body: bytes, problem: Unknown) -> Unknown:
    """``problem``, or Unknown(WRONG_CONTENT) where the body turns out to be JSON or HTML."""
    start = body[:256].lstrip()
    if start.startswith(b"<"):
        return Unknown(UnknownReason.WRONG_CONTENT, _HTML_HINT)
    if start.startswith((b"{", b"[")):
        try:
            json.loads(body)
        except (ValueError, RecursionError):
            return problem
        return Unknown(UnknownReason.WRONG_CONTENT, _JSON_HINT)
    return problem
