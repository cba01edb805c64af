"""The dashboard's files: complete, from here alone, and with words for all that can be said."""

from __future__ import annotations

import gzip
import re
from typing import Any

import pytest

from adapters.serving.views import Condition
from autoscaler.domain.judgement import Judgement
from autoscaler.domain.plan import Reason, Stage
from autoscaler.domain.reading import UnknownReason

OWN = (
    "dashboard.css",
    "dashboard.js",
    "charts.js",
    "feed.js",
    "list.js",
    "panels.js",
    "words.js",
    "words.json",
    "icon.svg",
)


@pytest.mark.parametrize(
    ("section", "spoken"),
    [
        ("reasons", Reason),
        ("unknowns", UnknownReason),
        ("stages", Stage),
        ("conditions", Condition),
        ("judgements", Judgement),
    ],
)
def test_there_are_words_for_everything(served: Any, section: str, spoken: Any) -> None:
    words = served.ask("/static/words.json").json()[section]
    assert set(words) == {member.value for member in spoken}


@pytest.mark.parametrize("name", OWN)
def test_own_files_name_no_other_machine(served: Any, name: str) -> None:
    reply = served.ask(f"/static/{name}")
    assert reply.status == 200
    addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w+", reply.body.decode())
    assert [address for address in addresses if "www.w3.org" not in address] == []


def test_the_page_asks_for_files_that_are_there(served: Any) -> None:
    page = served.ask("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    addresses = re.findall(r'(?:src|href)="(/static/[^"]+)"', page.body.decode())
    assert len(addresses) >= 4
    assert [served.ask(address).status for address in addresses] == [200] * len(addresses)


def test_plotly_comes_compressed_once_and_for_long(served: Any) -> None:
    address = re.search(r'src="(/static/plotly[^"]+)"', served.ask("/").body.decode())
    assert address is not None
    reply = served.ask(address[1], {"accept-encoding": "gzip"})
    assert reply.headers["content-encoding"] == "gzip"
    assert "immutable" in reply.headers["cache-control"]
    assert b"plotly.js v" in gzip.decompress(reply.body)[:100]
    again = served.ask(address[1], {"if-none-match": reply.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


def test_own_files_are_asked_for_again_but_sent_only_when_changed(served: Any) -> None:
    reply = served.ask("/static/dashboard.js")
    assert reply.headers["cache-control"] == "no-cache"
    assert served.ask("/static/dashboard.js", {"if-none-match": reply.headers["etag"]}).status == 304
    assert served.ask("/static/dashboard.js", {"if-none-match": '"other"'}).status == 200


def test_there_is_no_script_in_the_page_itself(served: Any) -> None:
    page = served.ask("/").body.decode()
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert re.findall(r"\son\w+=", page) == []
