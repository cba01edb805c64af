"""The OpenAI completions and chat completions interface as vLLM speaks it: requests in, frames of bytes out.

A prompt's tokens are its ids where it is a list of numbers, else its words. Every chunk that a request can
need is formatted once, when the request arrives, so that a token costs one write.
"""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass
from typing import TypeGuard

TOKEN_TEXT = " token"
_numbers = itertools.count(1)


class BadRequestError(ValueError):
    """The request can't be served as it stands. ``status`` and ``kind`` go into the answer."""

    def __init__(self, message: str, *, status: int = 400, kind: str = "BadRequestError") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """One completion asked for. ``max_tokens``: None asks for as much as the engine can hold."""

    chat: bool
    model: str
    prompt_tokens: int
    max_tokens: int | None
    ignore_eos: bool
    stream: bool
    include_usage: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPlan:
    """How long an answer will be and why it ends there: "length" (as asked) or "stop" (the model's own
    end).
    """

    max_tokens: int
    output_tokens: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """The bytes of one streamed answer.

    ``first``: sent just before the first token (chat's role, else empty). ``token``: each token but the last
    one. ``last``: the last token with its finish reason, then usage where asked for, and the end mark.
    """

    first: bytes
    token: bytes
    last: bytes


def completion_of_json(text: bytes, *, chat: bool, served_model: str) -> CompletionRequest:
    """Read a request body. Raises BadRequestError, with vLLM's status for it."""
    try:
        body = json.loads(text)
    except ValueError as error:
        raise BadRequestError(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadRequestError(f"the body must be an object, got {type(body).__name__}")
    model = body.get("model", served_model)
    if model != served_model:
        raise BadRequestError(f"The model `{model}` does not exist.", status=404, kind="NotFoundError")
    max_tokens = body.get("max_completion_tokens", body.get("max_tokens", None if chat else 16))
    if max_tokens is not None and (isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1):
        raise BadRequestError(f"max_tokens must be an integer of at least 1, got {max_tokens!r}")
    if body.get("n", 1) != 1:
        raise BadRequestError(f"n must be 1 here, got {body['n']!r}")
    options = body.get("stream_options") or {}
    return CompletionRequest(
        chat=chat,
        model=served_model,
        prompt_tokens=_chat_tokens(body.get("messages")) if chat else _prompt_tokens(body.get("prompt")),
        max_tokens=max_tokens,
        ignore_eos=body.get("ignore_eos", False) is True,
        stream=body.get("stream", False) is True,
        include_usage=isinstance(options, dict) and options.get("include_usage", False) is True,
    )


def _is_token_ids(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int for item in value)


def _prompt_tokens(prompt: object) -> int:
    if isinstance(prompt, str) and prompt:
        return max(1, len(prompt.split()))
    if prompt and _is_token_ids(prompt):
        return len(prompt)
    raise BadRequestError("prompt must be a non-empty string or a non-empty list of token ids")


def _chat_tokens(messages: object) -> int:
    if not isinstance(messages, list) or not messages:
        raise BadRequestError("messages must be a non-empty list")
    tokens = 0
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("content"), str):
            raise BadRequestError("each message must be an object with a string 'content'")
        tokens += len(message["content"].split())
    return max(1, tokens)


def plan(request: CompletionRequest, *, max_model_len: int, stop_after_tokens: int) -> OutputPlan:
    """How long the answer will be. Raises BadRequestError where the request is longer than the engine can
    hold.
    """
    max_tokens = request.max_tokens or max(1, max_model_len - request.prompt_tokens)
    asked = request.prompt_tokens + max_tokens
    if asked > max_model_len:
        raise BadRequestError(
            f"This model's maximum context length is {max_model_len} tokens. However, you requested {asked} tokens "
            f"({request.prompt_tokens} in the prompt, {max_tokens} in the completion)."
        )
    output_tokens = max_tokens if request.ignore_eos else min(max_tokens, stop_after_tokens)
    reason = "length" if output_tokens == max_tokens else "stop"
    return OutputPlan(max_tokens=max_tokens, output_tokens=output_tokens, reason=reason)


def frames(request: CompletionRequest, planned: OutputPlan) -> Frames:
    """All frames of a streamed answer."""
    head = _head(request, chunk=True)
    if request.chat:
        first = _event({**head, "choices": [_choice({"role": "assistant", "content": ""}, None)]})
        token = _event({**head, "choices": [_choice({"content": TOKEN_TEXT}, None)]})
        last = _event({**head, "choices": [_choice({"content": TOKEN_TEXT}, planned.reason)]})
    else:
        first = b""
        token = _event({**head, "choices": [_text_choice(TOKEN_TEXT, None)]})
        last = _event({**head, "choices": [_text_choice(TOKEN_TEXT, planned.reason)]})
    if request.include_usage:
        last += _event({**head, "choices": [], "usage": _usage(request, planned)})
    return Frames(first=first, token=token, last=last + b"data: [DONE]\n\n")


def answer(request: CompletionRequest, planned: OutputPlan) -> dict[str, object]:
    """The whole answer of a request that is not streamed, ready for JSON."""
    text = TOKEN_TEXT * planned.output_tokens
    choice: dict[str, object]
    if request.chat:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": planned.reason}
    else:
        choice = _text_choice(text, planned.reason)
    return {**_head(request, chunk=False), "choices": [choice], "usage": _usage(request, planned)}


def error_body(message: str, *, kind: str, status: int) -> dict[str, object]:
    """An error as vLLM words it, ready for JSON."""
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}


def models(served_model: str, *, max_model_len: int) -> dict[str, object]:
    """The answer of /v1/models, ready for JSON."""
    card = {"id": served_model, "object": "model", "owned_by": "emulator", "max_model_len": max_model_len}
    return {"object": "list", "data": [card]}


def _head(request: CompletionRequest, *, chunk: bool) -> dict[str, object]:
    number = next(_numbers)
    kind = ("chat.completion.chunk" if chunk else "chat.completion") if request.chat else "text_completion"
    prefix = "chatcmpl" if request.chat else "cmpl"
    return {"id": f"{prefix}-{number}", "object": kind, "created": int(time.time()), "model": request.model}


def _choice(delta: dict[str, str], reason: str | None) -> dict[str, object]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}


def _text_choice(text: str, reason: str | None) -> dict[str, object]:
    return {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}


def _usage(request: CompletionRequest, planned: OutputPlan) -> dict[str, int]:
    return {
        "prompt_tokens": request.prompt_tokens,
        "total_tokens": request.prompt_tokens + planned.output_tokens,
        "completion_tokens": planned.output_tokens,
    }


def _event(body: dict[str, object]) -> bytes:
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"
