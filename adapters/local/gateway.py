"""The gateway in front of the local replicas: a process of its own, which outlives the controller that started it.

    python -m adapters.local.gateway --admin STATE/gateway.sock --port 8080

It takes its routes from whoever speaks to its admin socket (``gateway_protocol``) and goes on with the last ones when
the controller is gone. A request for ``/-/gpu-autoscaler/health`` is answered by the gateway itself; every other one
goes to a replica:

    receive (gateway_receiving) -> choose a service (gateway_choosing) -> find a replica (gateway_routing), or wait
    for one (gateway_waiting) -> forward and relay the answer (gateway_forwarding), counting it (gateway_metrics)

This module only takes the addresses, so that whoever starts it learns at once whether they can be had.
"""

from __future__ import annotations

import argparse
import errno
import os
import socket
import stat
import sys
from pathlib import Path
from typing import NamedTuple

from adapters.local.template import GatewaySettings

EXIT_REFUSED = 3
EXIT_ALREADY_RUNNING = 4

BACKLOG = 4096

# Of a Unix socket's address, the terminating zero not counted (unix(7): 108 on Linux; 104 on macOS).
MAX_SOCKET_PATH_BYTES = 103


class RefusedStartError(Exception):
    """An address or a file can't be had; the message says which, why and what to do."""


class AlreadyRunningError(Exception):
    """Another gateway answers at the admin socket."""


def main(arguments: list[str] | None = None) -> int:
    """Listen, detach if asked to, and serve. Returns the exit code."""
    options = _parser().parse_args(arguments)
    settings = GatewaySettings(
        host=options.host,
        port=options.port,
        max_body_bytes=options.max_body_bytes,
        connect_timeout_s=options.connect_timeout_s,
        metrics_host=options.metrics_host,
        metrics_port=options.metrics_port,
    )
    admin_path = options.admin.absolute()
    try:
        clients = listen_for_clients(settings.host, settings.port)
        pages = listen_for_scrapes(settings)
        admin = listen_for_controller(admin_path)
        if options.detach is not None and _detach(options.detach) != 0:
            return 0
    except RefusedStartError as error:
        print(error, file=sys.stderr)
        return EXIT_REFUSED
    except AlreadyRunningError as error:
        print(error, file=sys.stderr)
        return EXIT_ALREADY_RUNNING
    # Only now: numpy, which comes with it, starts threads, and a process with threads is not to be forked.
    from adapters.local.gateway_serving import Listening, run  # noqa: PLC0415

    listening = Listening(clients=clients, pages=pages, admin=admin, admin_path=admin_path, backlog=BACKLOG)
    run(listening, settings, grace_s=options.grace_s)
    return 0


def listen_for_clients(host: str, port: int) -> list[socket.socket]:
    """A listening socket for each address of ``host``. Raises RefusedStartError."""
    return _listen(host, port, _Keys(host="gateway.host", port="gateway.port"))


def listen_for_scrapes(settings: GatewaySettings) -> list[socket.socket]:
    """As for clients, where the gateway's own pages are; none where it has none. Raises RefusedStartError."""
    if settings.metrics_port is None:
        return []
    keys = _Keys(host="gateway.metricsHost", port="gateway.metricsPort")
    return _listen(settings.metrics_host, settings.metrics_port, keys)


class _Keys(NamedTuple):
    """What is to be changed where an address can't be had."""

    host: str
    port: str


def _listen(host: str, port: int, keys: _Keys) -> list[socket.socket]:
    if not 0 <= port <= 65535:
        raise RefusedStartError(f"{keys.port} must lie in 0 ... 65535, got {port}")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise RefusedStartError(
            f"{keys.host} {host!r} is not an address of this machine ({error}); 127.0.0.1 takes requests from this"
            " machine only, 0.0.0.0 from everywhere"
        ) from error
    sockets: list[socket.socket] = []
    not_here: OSError | None = None
    for family, _, _, _, address in dict.fromkeys(found):
        # With port 0 the first address picks one for all.
        at_port = sockets[0].getsockname()[1] if sockets else port
        try:
            sockets.append(socket.create_server((address[0], at_port), family=family, backlog=BACKLOG))
        except OSError as error:
            if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                not_here = error  # "localhost" has an IPv6 address even where IPv6 is switched off
                continue
            for opened in sockets:
                opened.close()
            raise RefusedStartError(_why_not(host, port, keys, error)) from error
    if not_here is not None and not sockets:
        raise RefusedStartError(_why_not(host, port, keys, not_here)) from not_here
    return sockets


def listen_for_controller(path: Path) -> socket.socket:
    """The admin socket, for this user alone. A dead gateway's socket is replaced.

    Raises AlreadyRunningError or RefusedStartError.
    """
    length = len(os.fsencode(path))
    if length > MAX_SOCKET_PATH_BYTES:
        raise RefusedStartError(
            f"the path of the gateway's socket may have {MAX_SOCKET_PATH_BYTES} bytes, {path} has {length}; choose a"
            " state directory with a shorter path"
        )
    admin = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(stat.S_IRWXG | stat.S_IRWXO | stat.S_IXUSR)
    try:
        _remove_dead(path)
        admin.bind(os.fspath(path))
    except OSError as error:
        admin.close()
        raise RefusedStartError(f"can't make the gateway's socket {path}: {error.strerror}") from error
    finally:
        os.umask(before)
    admin.listen(64)
    return admin


def _remove_dead(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            asking.connect(os.fspath(path))
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise AlreadyRunningError(f"a gateway already answers at {path}")


def _why_not(host: str, port: int, keys: _Keys, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is taken by another program; stop that one, or set {keys.port} to a free port"
    if error.errno == errno.EACCES:
        return f"port {port} on {host} is not for ordinary users; set {keys.port} to 1024 or above"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine; set {keys.host} to one of its addresses, or to 127.0.0.1"
    return f"can't listen on port {port} of {host}: {error.strerror}"


def _detach(log_path: Path) -> int:
    """Go on as a process with no parent, no terminal and the log for output. Returns 0 there, the pid here."""
    try:
        log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        raise RefusedStartError(f"can't write the gateway's log {log_path}: {error.strerror}") from error
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.chdir("/")
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.close(nothing)
    os.close(log)
    return pid


def _parser() -> argparse.ArgumentParser:
    defaults = GatewaySettings()
    parser = argparse.ArgumentParser(
        prog="python -m adapters.local.gateway", description="The gateway in front of the local replicas."
    )
    parser.add_argument("--admin", type=Path, required=True, help="path of the socket that the controller speaks to")
    parser.add_argument("--host", default=defaults.host, help="address to take requests at (default: %(default)s)")
    parser.add_argument("--port", type=int, default=defaults.port, help="(default: %(default)s)")
    parser.add_argument("--max-body-bytes", type=int, default=defaults.max_body_bytes, help="(default: %(default)s)")
    parser.add_argument(
        "--connect-timeout-s", type=float, default=defaults.connect_timeout_s, help="(default: %(default)s)"
    )
    parser.add_argument(
        "--metrics-host", default=defaults.metrics_host, help="address of its own pages (default: %(default)s)"
    )
    parser.add_argument("--metrics-port", type=int, help="port of its own pages: /metrics, /healthz, /readyz")
    parser.add_argument(
        "--grace-s", type=float, default=30.0, help="for requests in flight at SIGTERM (default: %(default)s)"
    )
    parser.add_argument("--detach", type=Path, metavar="LOG", help="run in the background, output appended to LOG")
    return parser


if __name__ == "__main__":
    sys.exit(main())
