"""Files of requests and of rates: recognised by their columns, and refused with column, line and value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadtests.workloads.choosing import chosen_workload, of_file
from loadtests.workloads.rate_series import RateSeries
from loadtests.workloads.recorded import RecordedRequests
from loadtests.workloads.rows import TraceFileError

_KINDS = {
    "azure": (
        "trace.csv",
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\n"
            "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:48.1805900,396,109\n"
        ),
    ),
    "azure, 2024": (
        "trace.csv",
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\n"
            "2024-05-10 00:00:00.680590+00:00,374,44\n2024-05-10 00:00:02.180590+00:00,396,109\n"
        ),
    ),
    "another offset": (
        "trace.csv",
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\n"
            "2024-05-10 02:00:00.680590+02:00,374,44\n2024-05-10 00:00:02.180590+00:00,396,109\n"
        ),
    ),
    "burstgpt": (
        "trace.csv",
        (
            "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
            "5.68059,ChatGPT,374,44,418,Conversation log\n\n7.18059,GPT-4,396,109,505,API log\n"
        ),
    ),
    "mooncake, JSON lines": (
        "trace.jsonl",
        (
            '{"timestamp": 680.59, "input_length": 374, "output_length": 44, "hash_ids": [0]}\n'
            '{"timestamp": 2180.59, "input_length": 396, "output_length": 109, "hash_ids": [1]}\n'
        ),
    ),
    "mooncake, CSV": (
        "trace.csv",
        "timestamp,input_length,output_length,hash_ids\n680.59,374,44,[0]\n2180.59,396,109,[1]\n",
    ),
    "milliseconds": (
        "trace.csv",
        "timestamp_ms,input_tokens,output_tokens,prefix_hit_tokens_inf_cache\n680.59,374,44,0\n2180.59,396,109,0\n",
    ),
    "out of order": (
        "trace.csv",
        "at_s,prompt_tokens,output_tokens\n2.18059,396,109\n0.68059,374,44\n",
    ),
}


@pytest.mark.parametrize(("name", "text"), _KINDS.values(), ids=_KINDS)
def test_each_kind_of_request_file_gives_the_same_requests(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    read = of_file(tmp_path / name)
    assert isinstance(read, RecordedRequests)
    assert read.recorded.at_s == pytest.approx([0.68059, 2.18059], abs=1e-5)
    assert read.recorded.prompt_tokens.tolist() == [374, 396]
    assert read.recorded.output_tokens.tolist() == [44, 109]
    assert read.recorded.cached_tokens.tolist() == [0, 0]
    assert read.duration_s == 3


def test_blocks_seen_before_are_cached_up_to_the_first_new_one(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(
        '{"timestamp": 0, "input_length": 1600, "output_length": 5, "hash_ids": [7, 8, 9, 10]}\n'
        '{"timestamp": 9, "input_length": 1600, "output_length": 5, "hash_ids": [7, 8, 11, 9]}\n'
        '{"timestamp": 12, "input_length": 1536, "output_length": 5, "hash_ids": [7, 8, 11]}\n'
    )
    read = of_file(file)
    assert isinstance(read, RecordedRequests)
    assert read.recorded.cached_tokens.tolist() == [0, 1024, 1535]


_REQUESTS = "at_s,prompt_tokens,output_tokens\n"
_WRONG = {
    "a word": (_REQUESTS + "0,10,5\n1,ten,5\n", "line 3: prompt_tokens must be a whole number.*'ten'"),
    "half a token": (_REQUESTS + "0,10,0.5\n", "line 2: output_tokens must be a whole number.*'0.5'"),
    "a negative time": (_REQUESTS + "-1,10,5\n", "line 2: at_s must be seconds of at least 0, got '-1'"),
    "nothing": (_REQUESTS + "0,,5\n", "line 2: prompt_tokens .* got ''"),
    "not a number": (_REQUESTS + "nan,1,5\n", "line 2: at_s .* got 'nan'"),
    "a short line": (_REQUESTS + "0,1,2\n\n0,1\n", "line 4: no output_tokens; the line has 2 of 3 columns"),
    "no time": (
        "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,2\n",
        "line 2: TIMESTAMP must be a time such as .* got 'yesterday'",
    ),
    "no requests": (_REQUESTS, "no requests"),
    "an empty file": ("", "empty"),
    "other columns": ("a,b\n1,2\n", "no known kind of trace.*t_s, rate_rps.*Got a, b"),
    "rates that go back": ("minute,rate\n0,1\n2,1\n1,1\n", "line 4: minute must ascend, got 1 after 2"),
    "one row of rates": ("minute,rate\n0,1\n", "at least two rows"),
    "a negative rate": ("t_s,rate\n0,1\n60,-2\n", "line 3: rate must be a number of at least 0, got '-2'"),
    "a list that is none": (
        "timestamp,input_length,output_length,hash_ids\n0,5,5,none\n",
        "line 2: hash_ids must be a list .* got 'none'",
    ),
}


@pytest.mark.parametrize(("text", "message"), _WRONG.values(), ids=_WRONG)
def test_what_is_wrong_is_told_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(text)
    with pytest.raises(TraceFileError, match=f"(?s){message}"):
        of_file(file)


def test_a_json_line_that_is_no_object_is_told(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text('{"timestamp": 0, "input_length": 1, "output_length": 1}\n[1]\n')
    with pytest.raises(TraceFileError, match="line 2: must be a JSON object"):
        of_file(file)


_RATES = {
    "windows": "t_s,rate_rps,mean_client_cv,mean_in_tok,mean_out_tok\n0,2,1.5,100,20\n120,6,1.5,300,60\n",
    "a plot": "minute,req_per_min_mid,req_per_min_lo,req_per_min_hi,in_tok_per_min,out_tok_per_min\n"
    "10,120,110,130,12000,2400\n12,360,340,380,108000,21600\n",
    "seconds": "t_s,rate,cv,prompt_tokens,output_tokens\n60,2,1.5,100,20\n180,6,1.5,300,60\n",
    "minutes": "minute,rate,cv,prompt_tokens,output_tokens\n0,2,1.5,100,20\n2,6,1.5,300,60\n",
}


@pytest.mark.parametrize("text", _RATES.values(), ids=_RATES)
def test_each_kind_of_rate_file_gives_the_same_rates_and_lengths(text: str, tmp_path: Path) -> None:
    file = tmp_path / "rates.csv"
    file.write_text(text)
    read = of_file(file)
    assert isinstance(read, RateSeries)
    assert read.edges_s.tolist() == [0, 120, 240]
    assert read.rps == pytest.approx([2, 6])
    counts = read.counts(0)
    assert counts.duration_s == 240
    assert counts.prompt_tokens == pytest.approx((2 * 100 + 6 * 300) / 8, rel=1e-3)
    assert counts.output_tokens == pytest.approx((2 * 20 + 6 * 60) / 8, rel=1e-2)
    drawn = read.requests(0)
    early = drawn.at_s < 120
    assert drawn.prompt_tokens[~early].mean() > 2 * drawn.prompt_tokens[early].mean()


def test_one_client_of_a_table_is_a_service(tmp_path: Path) -> None:
    file = tmp_path / "clients.csv"
    file.write_text("t_s,c61,other\n0,1.5,7\n600,3,9\n")
    read = chosen_workload(f"{file}#c61")
    assert isinstance(read, RateSeries)
    assert read.rps.tolist() == [1.5, 3]
    assert read.name == "clients#c61"
    with pytest.raises(TraceFileError, match="need the column 'c7'"):
        chosen_workload(f"{file}#c7")


def test_digests_and_formulas_are_workloads() -> None:
    week = chosen_workload("azure2024_conv_week")
    assert week.duration_s == 7 * 86400
    ramp = chosen_workload("ramp:from=1,to=9,for=60")
    assert ramp.peak_rps() == pytest.approx(5, rel=1e-3)
    with pytest.raises(ValueError, match=r"no file 'weekly'.*azure2023_conv"):
        chosen_workload("weekly")


def test_a_client_without_traffic_sends_nothing(tmp_path: Path) -> None:
    file = tmp_path / "clients.csv"
    file.write_text("t_s,c61\n0,0\n600,0\n")
    assert chosen_workload(f"{file}#c61").counts(0).arrivals.sum() == 0
    assert np.array_equal(chosen_workload(f"{file}#c61").requests(0).at_s, np.zeros(0))
