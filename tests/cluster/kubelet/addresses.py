"""Pod addresses: 127.N.0.0/16, which Linux lets anyone bind without set-up. N is one cluster's alone."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

_CLAIM_PORT = 14_999
_FIRST, _END = 1, 65_000


class Addresses:
    """The addresses of one cluster. They come round again only after all others."""

    def __init__(self) -> None:
        self._network, self._claim = _claim()
        self._next = _FIRST
        self._taken: set[int] = set()

    def take(self) -> str:
        """An address that no pod has."""
        while self._next in self._taken:
            self._step()
        number = self._next
        self._taken.add(number)
        self._step()
        return f"127.{self._network}.{number >> 8}.{number & 255}"

    def give_back(self, address: str) -> None:
        """Its pod is gone."""
        _, _, high, low = (int(part) for part in address.split("."))
        self._taken.discard(high << 8 | low)

    def close(self) -> None:
        """Leave the network to others."""
        self._claim.close()

    def _step(self) -> None:
        self._next = self._next + 1 if self._next + 1 < _END else _FIRST


def _claim() -> tuple[int, socket.socket]:
    """A network that no other cluster on this machine has; it is ours while the socket is open."""
    for network in random.sample(range(1, 255), 254):
        claim = socket.socket()
        with suppress(OSError):
            claim.bind((f"127.{network}.255.254", _CLAIM_PORT))
            return network, claim
        claim.close()
    raise OSError("every network of 127.0.0.0/8 is claimed by a test cluster")
