"""What a command line tells, and what it keeps to itself."""

from __future__ import annotations

import shlex

import pytest

from autoscaler.config.command import is_secret_name, model_names, parallel_devices, placeholders, without_secrets


@pytest.mark.parametrize(
    ("command", "names"),
    [
        pytest.param("vllm serve org/m --port {port}", ("org/m",), id="vllm serve"),
        pytest.param("/opt/bin/vllm serve org/m", ("org/m",), id="by path"),
        pytest.param("vllm serve org/m --served-model-name a b --x", ("a", "b"), id="served names"),
        pytest.param("python -m vllm.entrypoints.openai.api_server --model=/m", ("/m",), id="module"),
        pytest.param("python -m sglang.launch_server --model-path org/m", ("org/m",), id="sglang"),
        pytest.param("text-generation-launcher --model-id org/m", ("org/m",), id="tgi"),
        pytest.param("vllm serve --config x.yaml", (), id="model elsewhere"),
        pytest.param("engine --model {model} --port {port}", (), id="placeholder"),
        pytest.param("vllm serve org/m --served-model-name {model}", (), id="served under a placeholder"),
        pytest.param("tritonserver --model-repository /m", (), id="no model"),
    ],
)
def test_model_names(command: str, names: tuple[str, ...]) -> None:
    assert model_names(shlex.split(command)) == names


@pytest.mark.parametrize(
    ("command", "count"),
    [
        pytest.param("vllm serve m", 1, id="none"),
        pytest.param("vllm serve m --tensor-parallel-size 4", 4, id="tensor"),
        pytest.param("vllm serve m -tp 2 -pp=2", 4, id="short, both"),
        pytest.param("vllm serve m -tp 2 --data-parallel-size 2", 4, id="data"),
        pytest.param("vllm serve m -tp auto", 1, id="no number"),
        pytest.param("vllm serve m -tp 0", 1, id="zero"),
    ],
)
def test_parallel_devices(command: str, count: int) -> None:
    assert parallel_devices(shlex.split(command)) == count


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("--port {port} --host {host}", ["port", "host"], id="two"),
        pytest.param('{"model": {"a": 1}}', [], id="JSON"),
        pytest.param("{{port}}", [], id="doubled"),
        pytest.param("http://{host}:{port}/x", ["host", "port"], id="inside a word"),
    ],
)
def test_placeholders(text: str, names: list[str]) -> None:
    assert list(placeholders(text)) == names


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        pytest.param("serve --api-key s3cret --port 1", "serve --api-key (hidden) --port 1", id="next word"),
        pytest.param("serve --api-key=s3cret", "serve --api-key=(hidden)", id="joined"),
        pytest.param("serve --api-key a b --port 1", "serve --api-key (hidden) (hidden) --port 1", id="several"),
        pytest.param("serve --max-num-batched-tokens 8192", "serve --max-num-batched-tokens 8192", id="token counts"),
    ],
)
def test_secrets_of_a_command_are_hidden(command: str, shown: str) -> None:
    assert " ".join(without_secrets(shlex.split(command))) == shown


@pytest.mark.parametrize("name", ["HF_TOKEN", "VLLM_API_KEY", "PASSWORD", "db-secret", "AWS_SECRET_ACCESS_KEY"])
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "VLLM_CPU_KVCACHE_SPACE", "KEYBOARD", "MAX_TOKENS"])
def test_other_names(name: str) -> None:
    assert not is_secret_name(name)
