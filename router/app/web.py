"""The router's HTTP interface; see `docs/protocol.md` for its contract."""

from __future__ import annotations

import asyncio
from collections import deque
from random import Random
from time import monotonic

from aiohttp import web

from router.app.bodies import read_job, read_json, read_keyed_job
from router.app.driver import RouterDriver
from router.app.keys import Answer, Keys
from router.app.links import Links
from router.app.replies import BadRequest, end_answer, server_entry
from router.app.settings import RouterSettings, policy_in_time
from router.app.stream import Streams
from router.events import EndJob
from router.jobs import OnceJob
from router.openapi import description
from router.process.access import Access
from router.process.fastpath import Connection, FastPath
from router.process.limits import Connections, body_of
from router.process.metrics import Metrics
from router.process.web import Route, application, describes, error_reply, internal_error, looking, reply, shows
from router.protocol.errors import SettingsError
from router.protocol.http import MAX_BODY_BYTES, MAX_JOB_BYTES
from router.registry import policy_table


class RouterWeb:
    """The routes of one router.

    Args:
        settings: Its settings.
        driver: Takes the jobs.
        links: Serves the servers. `streams`: serves the generators.
        connections: Those of the process.
        keys: The jobs that carry a key.
        metrics: What `GET /metrics` shows.
        rng: The random stream of the policies.
    """

    def __init__(
        self,
        settings: RouterSettings,
        driver: RouterDriver,
        links: Links,
        streams: Streams,
        connections: Connections,
        keys: Keys,
        metrics: Metrics,
        rng: Random,
    ) -> None:
        self._settings = settings
        self._driver = driver
        self._links = links
        self._streams = streams
        self._connections = connections
        self._metrics = metrics
        self._rng = rng
        self._loop = asyncio.get_running_loop()
        self._keys = keys
        # Each change is told to every server, which answers: in a tight loop that would bury the links.
        self._changes: deque[float] = deque(maxlen=settings.max_policy_changes)

    def application(self, access: Access) -> web.Application:
        """The aiohttp application.

        Args:
            access: Whom to let in.
        """
        app = application(
            (
                Route("POST", "/v1/jobs", self.post_job),
                Route("GET", "/v1/link", self.get_link),
                Route("GET", "/v1/stream", self.get_stream),
                looking("/v1/servers", self.get_servers),
                looking("/v1/policy", self.get_policy),
                Route("PUT", "/v1/policy", self.put_policy),
                looking("/health", self.get_health),
                looking("/ready", self.get_ready),
                looking("/metrics", shows(self._metrics)),
                describes(description),
            ),
            access,
            self._connections,
        )
        self._connections.fast_path = FastPath("POST", "/v1/jobs", self.take_job, MAX_JOB_BYTES, access)
        app.on_shutdown.append(self._shut_down)
        return app

    async def _shut_down(self, app: web.Application) -> None:
        # Links first: jobs that are still there end with them, and the streams can tell.
        await self._links.close("the router ends")
        await self._streams.close("the router ends")
        if self._connections.fast_path is not None:
            self._connections.fast_path.close()
        self._driver.close()

    # -- jobs ---------------------------------------------------------------------------------

    async def post_job(self, request: web.Request) -> web.Response:
        """Take one job in and answer its end."""
        try:
            body = await _body(request, MAX_JOB_BYTES)
            key, size, patience = read_keyed_job(body, _key_header(request))
            if key is not None:
                keyed = await asyncio.shield(self._keyed(key, size, patience))
                self._count_unheard(request)
                return _answer(*keyed)
        except BadRequest as error:
            return self._refuse(error)
        waiter: asyncio.Future[EndJob] = self._loop.create_future()
        self._driver.submit(((waiter, size, patience),), self._job_ended, monotonic())
        effect = await waiter
        self._count_unheard(request)
        return _answer(*end_answer(self._settings.id, effect))

    def _count_unheard(self, request: web.Request) -> None:
        if request.transport is None or request.transport.is_closing():
            self._driver.counts.unheard["http"] += 1  # the client is gone; the job ran on

    def _keyed(self, key: str, size: float, patience: float | None) -> asyncio.Future[Answer]:
        """The answer to a job with a key: a new one is taken in, one that is known has or gets its one answer."""
        now, job = monotonic(), (size, patience)
        answer = self._keys.find(key, job, now)
        if answer is None:
            answer = self._loop.create_future()
            self._keys.begin(key, job, answer)
            try:
                self._driver.submit(((key, size, patience),), self._keyed_ended, now, OnceJob)
            except Exception:
                self._keys.drop(key)
                raise
        return answer

    def _keyed_ended(self, effect: EndJob, key: str) -> None:
        self._keys.ended(key, effect, Answer(*end_answer(self._settings.id, effect)), monotonic())

    def _job_ended(self, effect: EndJob, waiter: asyncio.Future[EndJob]) -> None:
        if waiter.done():  # cancelled: the process ends and waits no longer
            self._driver.counts.unheard["http"] += 1
        else:
            waiter.set_result(effect)

    def take_job(self, body: bytes, connection: Connection) -> bool:
        """As `post_job`, by the fast path; false: it must go the other way."""
        try:
            size, patience = read_job(body)
        except BadRequest:
            return False
        try:
            self._driver.submit(((connection, size, patience),), self._answer_end, monotonic())
        except Exception as error:
            answer = internal_error("POST", "/v1/jobs", error)
            assert isinstance(answer.body, bytes)
            connection.answer(answer.status, answer.body)
        return True

    def _answer_end(self, effect: EndJob, connection: Connection) -> None:
        if not connection.answer(*end_answer(self._settings.id, effect)):
            self._driver.counts.unheard["http"] += 1

    def _refuse(self, error: BadRequest) -> web.Response:
        self._driver.counts.http_refusals[error.kind] += 1
        return error_reply(error.status, error.kind, str(error))

    # -- WebSockets ---------------------------------------------------------------------------

    async def get_link(self, request: web.Request) -> web.StreamResponse:
        """Serve a link to a server process."""
        if refusal := self._no_websocket(request, len(self._links), self._settings.max_links):
            return self._refuse(refusal)
        return await self._links.serve(request)

    async def get_stream(self, request: web.Request) -> web.StreamResponse:
        """Serve a stream of a generator."""
        if refusal := self._no_websocket(request, len(self._streams), self._settings.max_streams):
            return self._refuse(refusal)
        return await self._streams.serve(request)

    def _no_websocket(self, request: web.Request, there: int, most: int) -> BadRequest | None:
        if not web.WebSocketResponse().can_prepare(request):
            return BadRequest(400, "websocket", f"{request.path} is a WebSocket (RFC 6455): expected its handshake")
        if there >= most:
            return BadRequest(503, "limit", f"{request.path}: {there} are open, the limit")
        return None

    # -- what there is ------------------------------------------------------------------------

    async def get_servers(self, request: web.Request) -> web.Response:
        """Answer all servers."""
        core = self._driver.core
        return reply({"servers": [server_entry(server, core.members) for server in core.servers.values()]})

    async def get_policy(self, request: web.Request) -> web.Response:
        """Answer the policy in force."""
        return reply(policy_table(self._driver.core.policy))

    async def put_policy(self, request: web.Request) -> web.Response:
        """Put another policy in force."""
        changes, most = self._changes, self._settings.max_policy_changes
        if len(changes) == most and monotonic() - changes[0] < 1.0:
            return self._refuse(BadRequest(429, "too_often", f"{most} changes of policy within a second, the limit"))
        try:
            table = read_json(await _body(request, MAX_BODY_BYTES))
            if type(table) is not dict:
                raise BadRequest(400, "settings", f'expected {{"name": …}}, the [policy] table, found {table!r:.80}')
            policy = policy_in_time(table, self._rng, self._settings.time_unit_s)
        except BadRequest as error:
            return self._refuse(error)
        except SettingsError as error:
            return self._refuse(BadRequest(400, "settings", str(error)))
        changes.append(monotonic())
        self._driver.switch(policy)
        return reply(policy_table(policy))

    async def get_health(self, request: web.Request) -> web.Response:
        """Answer that the process lives."""
        return reply({"status": "ok", "role": "router", "id": self._settings.id})

    async def get_ready(self, request: web.Request) -> web.Response:
        """Answer whether a job would find a server."""
        core = self._driver.core
        live = len(core.servers) - len(core.draining)
        reason = "draining" if self._driver.draining else "" if live else "no_server"
        return reply({"ready": not reason, "reason": reason, "servers": live}, 503 if reason else 200)


def _key_header(request: web.Request) -> str | None:
    keys = dict.fromkeys(request.headers.getall("Idempotency-Key", ()))
    if len(keys) > 1:
        raise BadRequest(400, "job", "the header Idempotency-Key is there with several values: give one of them")
    return next(iter(keys), None)


async def _body(request: web.Request, limit: int) -> bytes:
    too_long = BadRequest(413, "too_long", f"body longer than {limit} bytes")
    if (request.content_length or 0) > limit:
        raise too_long
    try:
        body = await body_of(request)
    except web.HTTPRequestEntityTooLarge:
        raise too_long from None
    if len(body) > limit:
        raise too_long
    return body


def _answer(status: int, body: bytes) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
