"""The one service of a user's configuration that is compared."""

from __future__ import annotations

from pathlib import Path

import yaml

from autoscaler.config import ConfigError
from autoscaler.config.loading import load_text
from autoscaler.config.settings import Settings
from autoscaler.domain.service import Service
from loadtests.compare.choice import ChoiceError

_GRACE_S = 60.0


def text_of(config: Path, *, service: str | None) -> str:
    """The configuration of that service alone; None: of the only one. Raises ChoiceError."""
    try:
        text = config.read_text(encoding="utf-8")
    except OSError as error:
        raise ChoiceError(f"--config {config}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ChoiceError(f"--config {config}: no text in UTF-8: {error}") from error
    names = [str(each.id) for each in _settings(text, source=str(config)).settled(()).services]
    if service is None and len(names) > 1:
        raise ChoiceError(f"--config {config} has {len(names)} services; say which with --service: {', '.join(names)}")
    if service is not None and service not in names:
        raise ChoiceError(f"--service must be one of {', '.join(names)} of {config}, got {service!r}")
    if len(names) == 1:
        return text
    document = yaml.safe_load(text)
    document["services"] = [each for each in document["services"] if each["name"] == service]
    return yaml.safe_dump(document, sort_keys=False)


def service_of(text: str, *, source: str) -> Service:
    """The service that a text of one service configures. Raises ChoiceError."""
    return _settings(text, source=source).settled(()).services[0]


def drain_s_of(text: str, service: Service) -> float:
    """The configured grace period. In a cluster it is the pods' own, which isn't configured here: the default then."""
    templates = _settings(text, source="the configuration").templates
    return next((each.grace_period_s for each in templates if each.service == service.id), _GRACE_S)


def _settings(text: str, *, source: str) -> Settings:
    try:
        settings = load_text(text.encode(), source=source, folder=Path()).settings
    except ConfigError as error:
        raise ChoiceError(str(error)) from error
    if not settings.services:
        raise ChoiceError(f"{source}: has no services; a comparison runs one of them")
    return settings
