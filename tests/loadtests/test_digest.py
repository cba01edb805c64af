"""Digests: made from rows, written, read again."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from loadtests import digest
from loadtests.digest import Digest, of_rates, of_requests, read, shipped, to_json
from loadtests.lengths import LengthQuantiles, constant_length

LIKE = Digest(
    name="made",
    source="nowhere",
    licence="none",
    note="",
    interval_s=10.0,
    dispersion=2.5,
    prompt_tokens=LengthQuantiles((0.0, 0.5, 1.0), (10.0, 100.0, 300.0)),
    output_tokens=constant_length(50),
    arrivals=(1,),
)
# Twelve seconds: counts 3 0 1 0 | 2 2 2 2 | 0 0 5 0.
SECONDS = (0, 0, 0, 2, 4, 4, 5, 5, 6, 6, 7, 7, 10, 10, 10, 10, 10, 11)


def request_rows() -> list[dict[str, str]]:
    return [
        {
            "TIMESTAMP": f"2023-11-16 18:15:{30 + second}.{index:07d}",
            "ContextTokens": str(10 * (index + 1)),
            "GeneratedTokens": "0" if index == 0 else "7",
        }
        for index, second in enumerate(SECONDS)
    ]


def test_requests_become_counts_dispersion_and_quantiles() -> None:
    made = of_requests(request_rows(), like=LIKE, interval_s=4.0)
    assert made.arrivals == (4, 8, 6)
    # Variances of the seconds inside the intervals: 2, 0 and 17/3; their mean over the mean count of 1.5.
    assert made.dispersion == pytest.approx((2 + 0 + 17 / 3) / 3 / 1.5, abs=0.001)
    assert (made.prompt_tokens.tokens[0], made.prompt_tokens.tokens[-1]) == (10, 180)
    assert made.prompt_tokens.mean() == pytest.approx(95, abs=5)
    # No output at all counts as one token: the request was served.
    assert (made.output_tokens.tokens[0], made.output_tokens.tokens[-1]) == (1, 7)


def test_order_of_rows_does_not_matter() -> None:
    rows = request_rows()
    assert of_requests(rows[::-1], like=LIKE, interval_s=4.0) == of_requests(rows, like=LIKE, interval_s=4.0)


def test_rates_become_counts_and_scaled_lengths() -> None:
    rows = [
        {
            "minute": str(minute),
            "req_per_min_mid": str(rate),
            "in_tok_per_min": str(rate * 200),
            "out_tok_per_min": str(rate * 20),
        }
        for minute, rate in ((0, 100), (10, 100), (20, 300), (30, 300))
    ]
    made = of_rates(rows, like=LIKE, interval_s=600.0)
    assert made.arrivals == (1000, 2000, 3000)
    assert made.dispersion == LIKE.dispersion
    assert made.prompt_tokens.mean() == pytest.approx(200, rel=0.01)
    assert made.output_tokens.mean() == pytest.approx(20, rel=0.01)


def test_written_and_read_again_it_is_the_same(tmp_path: Path) -> None:
    made = of_requests(request_rows(), like=LIKE, interval_s=4.0)
    file = tmp_path / "made.json"
    file.write_text(to_json(made))
    assert read(file) == made


@pytest.mark.parametrize("name", sorted(path.stem for path in digest.SHIPPED.glob("*.json")))
def test_shipped_digests_are_small_and_say_where_they_are_from(name: str) -> None:
    made = shipped(name)
    file = digest.SHIPPED / f"{name}.json"
    assert made.name == name
    assert "AzurePublicDataset" in made.source
    assert made.licence == "CC-BY-4.0"
    assert file.stat().st_size < 6000
    assert file.read_text() == to_json(made)


def test_command_prints_the_digest_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = request_rows()
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0].keys())
    writer.writeheader()
    writer.writerows(rows)
    file = tmp_path / "trace.csv"
    file.write_text(text.getvalue())
    digest.main([str(file), "--name", "made", "--source", "nowhere", "--licence", "none", "--interval-s", "4"])
    printed = tmp_path / "printed.json"
    printed.write_text(capsys.readouterr().out)
    assert read(printed) == of_requests(rows, like=LIKE, interval_s=4.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("", "need the columns TIMESTAMP", id="empty"),
        pytest.param("a,b\n1,2\n", "got a, b", id="other columns"),
        pytest.param("TIMESTAMP,ContextTokens,GeneratedTokens\n", "no rows", id="no rows"),
        pytest.param("TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,2\n", "yesterday", id="bad time"),
        pytest.param("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1,2\n", "less than one", id="short"),
        pytest.param("minute,req_per_min_mid,in_tok_per_min,out_tok_per_min\n", "--like", id="rates alone"),
    ],
)
def test_unusable_file_is_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(text)
    with pytest.raises(SystemExit):
        digest.main([str(file), "--name", "x", "--source", "x", "--licence", "x"])
    assert says in capsys.readouterr().err


def test_unknown_digest_names_those_there_are() -> None:
    with pytest.raises(ValueError, match="azure2023_code, azure2023_conv, azure2024_conv_week"):
        shipped("azure2025")


def test_file_that_is_no_digest_is_named(tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    file.write_text("{}")
    with pytest.raises(ValueError, match=r"broken\.json"):
        read(file)
