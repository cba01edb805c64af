"""The project's pages (Markdown): their headings, links, and the commands that they name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
_MARKDOWN = MarkdownIt("commonmark").enable("table")
# Languages of blocks in which there are no commands.
_NO_COMMANDS = ("yaml", "json", "python", "promql")
_COMMAND = re.compile(r"^(?:\S*/)?(gpu-autoscaler|helm|make|python)$")


@dataclass(frozen=True, slots=True)
class Page:
    """One page; ``path`` from the root of the checkout."""

    path: Path

    def links(self) -> list[str]:
        """Where its links and images lead."""
        found = []
        for token in self._inline():
            target = token.attrGet("href") or token.attrGet("src")
            if target is not None:
                found.append(str(target))
        return found

    def anchors(self) -> set[str]:
        """What a link may name after ``#``, as GitHub makes it of headings."""
        tokens = self._tokens()
        titles = [
            "".join(part.content for part in following.children or ())
            for token, following in pairwise(tokens)
            if token.type == "heading_open"
        ]
        return {anchor_of(title) for title in titles}

    def commands(self) -> list[list[str]]:
        """Calls of programs that can be checked, as words; alternatives such as ``hpa|keda`` are several calls."""
        return [call for text in self._code() for line in _lines(text) for call in _calls(line)]

    def _code(self) -> Iterator[str]:
        for token in self._tokens():
            if token.type == "code_block" or (token.type == "fence" and token.info not in _NO_COMMANDS):
                yield token.content
        # In running text, what has no argument is only a name.
        yield from (token.content for token in self._inline() if token.type == "code_inline" and " " in token.content)

    def _inline(self) -> Iterator[Token]:
        for token in self._tokens():
            yield from token.children or ()

    def _tokens(self) -> list[Token]:
        return _parsed(self.path)


@cache
def _parsed(path: Path) -> list[Token]:
    """Pages that many links lead to are read once."""
    return _MARKDOWN.parse((ROOT / path).read_text(encoding="utf-8"))


def anchor_of(title: str) -> str:
    """GitHub's name for a heading: lower case, punctuation dropped, spaces as dashes."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _lines(text: str) -> list[str]:
    return text.replace("\\\n", " ").splitlines()


def _calls(line: str) -> Iterator[list[str]]:
    """The calls of one line, each to the end of its part of a pipe."""
    for part in re.split(r" \\?\| | && |; ", line.split(" #", maxsplit=1)[0]):
        try:
            words = shlex.split(re.sub(r"[\[\]]", " ", part))
        except ValueError:  # prose with an apostrophe
            continue
        while words and re.match(r"^[A-Z_]+=", words[0]):
            words.pop(0)
        if not words or not (named := _COMMAND.match(words[0])):
            continue
        yield from _alternatives([named.group(1), *words[1:]])


def _alternatives(words: list[str]) -> list[list[str]]:
    """``manifests hpa|keda NAME`` -> two calls."""
    calls: list[list[str]] = [[]]
    for word in words:
        choices = word.split("|") if re.fullmatch(r"[a-z-]+(\|[a-z-]+)+", word) else [word]
        calls = [[*call, choice] for call in calls for choice in choices]
    return calls
