"""What the demo asks the controller's API."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass

from autoscaler.codec import from_plain
from autoscaler.domain.plan import ServiceDecision

_TIMEOUT_S = 5.0


class ApiUnavailableError(Exception):
    """No usable answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerApi:
    """The API of one controller, for one service."""

    url: str
    service: str

    def latest(self) -> ServiceDecision | None:
        """The newest decision, None before the first. Raises ApiUnavailableError."""
        return next(iter(self.decisions(since_s=0.0, limit=1)), None)

    def decisions(self, *, since_s: float, limit: int = 1000) -> tuple[ServiceDecision, ...]:
        """At most ``limit`` decisions from ``since_s`` on, oldest first. Raises ApiUnavailableError."""
        body = self._get(f"/api/v1/services/{self.service}/decisions?since={since_s}&limit={limit}")
        decisions = body.get("decisions") if isinstance(body, dict) else None
        if not isinstance(decisions, list):
            raise ApiUnavailableError(f"{self.url}: an answer without decisions")
        try:
            return tuple(from_plain(ServiceDecision, decision) for decision in decisions)
        except ValueError as error:
            raise ApiUnavailableError(f"{self.url}: {error}") from error

    def _get(self, path: str) -> object:
        try:
            with urllib.request.urlopen(self.url + path, timeout=_TIMEOUT_S) as response:
                return json.load(response)
        except (OSError, ValueError, urllib.error.URLError) as error:
            raise ApiUnavailableError(f"{self.url}: {error}") from error
