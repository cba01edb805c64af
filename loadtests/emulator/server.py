"""The HTTP server of an emulated engine: its paths and its start-up."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable

from aiohttp import HttpVersion11, web

from loadtests.emulator import openai
from loadtests.emulator.batching import ContinuousBatching, Sequence
from loadtests.emulator.faults import EngineFault, Faults, faults_of_json
from loadtests.emulator.injection import FaultInjector
from loadtests.emulator.metrics_page import MetricsPage, PageOf
from loadtests.emulator.page import EnginePage
from loadtests.emulator.settings import EmulatorSettings
from loadtests.emulator.sglang_page import SglangPage
from loadtests.emulator.sinks import StreamSink, WholeSink
from loadtests.emulator.stepping import Stepper
from loadtests.emulator.tgi_page import TgiPage
from loadtests.emulator.triton_page import TritonPage

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class EmulatorServer:
    """One emulated engine on its port. ``serve`` runs it until it is cancelled."""

    def __init__(self, settings: EmulatorSettings) -> None:
        self._settings = settings
        self._page = page_for(settings)
        engine = ContinuousBatching(cost=settings.cost, limits=settings.limits)
        self._stepper = Stepper(engine=engine, page=self._page)
        self._injector = FaultInjector(page=self._page, stepper=self._stepper, refuse=self._refuse)
        self._ready = False
        # A client that goes away cancels its handler, which takes the request out of the batch.
        self._runner = web.AppRunner(self._app(), access_log=None, handler_cancellation=True, shutdown_timeout=0)
        self._site: web.TCPSite | None = None

    async def serve(self) -> None:
        """Start, be ready after the start-up time, and serve. Raises OSError where the port can't be had."""
        settings = self._settings
        await self._runner.setup()
        stepping = asyncio.create_task(self._stepper.run())
        try:
            await asyncio.sleep(settings.listen_after_s)
            await self._listen()
            await asyncio.sleep(settings.startup_s - settings.listen_after_s)
            if settings.faults.engine is not None and settings.faults.engine.kind is EngineFault.CRASH_AT_START:
                os._exit(1)
            self._injector.set(settings.faults)
            self._ready = True
            await stepping
        finally:
            stepping.cancel()
            await self._runner.cleanup()

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[self._gate], client_max_size=64 * 1024 * 1024)
        app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/metrics", self._metrics),
                web.get("/v1/models", self._models),
                web.post("/v1/completions", self._completions),
                web.post("/v1/chat/completions", self._chat),
                web.get("/faults", self._faults_get),
                web.post("/faults", self._faults_post),
                web.delete("/faults", self._faults_delete),
            ]
        )
        return app

    async def _listen(self) -> None:
        self._site = web.TCPSite(self._runner, self._settings.host, self._settings.port)
        await self._site.start()

    async def _refuse(self, for_s: float) -> None:
        if self._site is not None:
            await self._site.stop()
            await asyncio.sleep(for_s)
            await self._listen()

    @web.middleware
    async def _gate(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not self._ready and request.path != "/faults":
            return web.Response(status=503)
        return await handler(request)

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _models(self, _: web.Request) -> web.Response:
        limit = self._settings.limits.max_model_len
        return web.json_response(openai.models(self._settings.model, max_model_len=limit))

    async def _metrics(self, _: web.Request) -> web.Response:
        answer = await self._injector.page()
        return web.Response(status=answer.status, body=answer.body, headers={"Content-Type": answer.content_type})

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._complete(request, chat=False)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._complete(request, chat=True)

    async def _complete(self, request: web.Request, *, chat: bool) -> web.StreamResponse:
        arrived_s = time.monotonic()
        text = await request.read()
        self._page.receive(chat=chat)
        response: web.StreamResponse
        try:
            if self._injector.fails_requests():
                raise openai.BadRequestError("injected fault", status=500, kind="InternalServerError")
            asked = openai.completion_of_json(text, chat=chat, served_model=self._settings.model)
            response, sent_bytes = await self._generate(request, asked, arrived_s)
        except openai.BadRequestError as error:
            self._page.refuse()
            body = json.dumps(openai.error_body(str(error), kind=error.kind, status=error.status)).encode()
            response = web.Response(status=error.status, body=body, content_type="application/json")
            sent_bytes = len(body)
        self._page.count_http(
            handler=request.path,
            status=response.status,
            duration_s=time.monotonic() - arrived_s,
            request_bytes=len(text),
            response_bytes=sent_bytes,
        )
        return response

    async def _generate(
        self, request: web.Request, asked: openai.CompletionRequest, arrived_s: float
    ) -> tuple[web.StreamResponse, int]:
        """Queue it, wait for its tokens, and answer; the second value is the body's size in bytes."""
        plan = openai.plan(
            asked,
            max_model_len=self._settings.limits.max_model_len,
            stop_after_tokens=self._settings.stop_after_tokens,
        )
        sequence = Sequence(prompt_tokens=asked.prompt_tokens, output_tokens=plan.output_tokens, arrived_s=arrived_s)
        try:
            if asked.stream:
                response, sent_bytes = await self._stream(request, openai.frames(asked, plan), sequence)
            else:
                whole = WholeSink()
                self._stepper.submit(sequence, whole)
                await whole.done
                body = json.dumps(openai.answer(asked, plan)).encode()
                response = web.Response(body=body, content_type="application/json")
                sent_bytes = len(body)
        finally:
            self._stepper.abort(sequence)
        self._page.count_finish(sequence, reason=plan.reason, max_tokens=plan.max_tokens)
        return response, sent_bytes

    async def _stream(
        self, request: web.Request, frames: openai.Frames, sequence: Sequence
    ) -> tuple[web.StreamResponse, int]:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        chunked = request.version >= HttpVersion11
        if chunked:
            response.enable_chunked_encoding()
        await response.prepare(request)
        transport = request.transport
        if transport is None:
            raise asyncio.CancelledError
        stream = StreamSink(transport, frames, chunked=chunked)
        self._stepper.submit(sequence, stream)
        await stream.done
        await response.write_eof()
        return response, stream.sent_bytes

    async def _faults_get(self, _: web.Request) -> web.Response:
        return _faults_answer(self._injector.faults)

    async def _faults_post(self, request: web.Request) -> web.Response:
        try:
            faults = faults_of_json(json.loads(await request.read()))
        except ValueError as error:
            return web.json_response({"error": str(error)}, status=400)
        self._injector.set(faults)
        return _faults_answer(faults)

    async def _faults_delete(self, _: web.Request) -> web.Response:
        self._injector.set(Faults())
        return _faults_answer(Faults())


def page_for(settings: EmulatorSettings) -> MetricsPage:
    """The metrics page of the engine that is emulated."""
    match settings.page_of:
        case PageOf.TGI:
            return TgiPage(limits=settings.limits)
        case PageOf.SGLANG:
            return SglangPage(model=settings.model, limits=settings.limits)
        case PageOf.TRITON:
            return TritonPage(model=settings.model)
    return EnginePage(model=settings.model, limits=settings.limits)


def _faults_answer(faults: Faults) -> web.Response:
    page, engine = faults.page, faults.engine
    return web.json_response({"page": page and page.kind.value, "engine": engine and engine.kind.value})
