"""The shipped step-time profiles by the names that a file uses."""

from __future__ import annotations

import re

from predictors.profiles import Profile, UnknownProfileError, find_profile, profiles

_NAME = re.compile(r"(?P<gpu>[^/]+)/(?P<model>.+)/tp(?P<tp>[0-9]{1,4})")


def profile_names() -> list[str]:
    """The names of all shipped profiles, sorted."""
    return [profile.name for profile in profiles()]


def profile_of(name: str) -> Profile:
    """The profile called ``name``: GPU/model/tpN, the parts as they are usually spelt. Raises ValueError."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"must be GPU/model/tpN, such as {profile_names()[0]}; got {name}")
    try:
        return find_profile(gpu=match["gpu"], model=match["model"], tp=int(match["tp"]))
    except UnknownProfileError as error:
        raise ValueError(f"{error}; shipped: {', '.join(profile_names())}") from error
