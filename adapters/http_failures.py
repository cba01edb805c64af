"""What aiohttp's errors mean, for one who knows nothing of the library."""

from __future__ import annotations

import os
import ssl

import aiohttp


def in_words(error: Exception) -> str:
    """What went wrong with a request. Never holds the address as it was written, in which a password may stand."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            words = f"no address is known for the host {error.host}"
        case aiohttp.ClientConnectorCertificateError():
            words = f"the certificate of {error.host}:{error.port} is not trusted: {error.certificate_error}"
        case aiohttp.ClientConnectorError():
            words = f"no connection to {error.host}:{error.port}: {_of_system(error.os_error)}"
        case aiohttp.ServerDisconnectedError():
            words = "the server closed the connection without an answer"
        case aiohttp.ClientPayloadError():
            words = "the answer was cut short"
        case aiohttp.ClientResponseError():
            words = f"no answer of HTTP: {error.message}"
        case OSError():
            words = f"the connection broke: {_of_system(error)}"
        case ValueError():
            words = "no address that can be asked"  # its text may hold a password
        case _:
            words = "the connection broke"
    return words


def _of_system(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):  # its numbers are the library's own
        return f"TLS failed: {(error.reason or str(error)).lower().replace('_', ' ')}"
    return os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error)
