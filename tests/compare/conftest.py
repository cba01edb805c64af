"""A small study: ten minutes that double, on a fluid fleet."""

from __future__ import annotations

import pytest

from loadtests.compare.choice import Choice
from loadtests.compare.choosing import study_of
from loadtests.compare.study import Study
from tests.compare.choices import CHOICE


@pytest.fixture(scope="session")
def choice() -> Choice:
    return CHOICE


@pytest.fixture(scope="session")
def study(choice: Choice) -> Study:
    return study_of(choice)
