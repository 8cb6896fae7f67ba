"""JSON lines over a pair of inherited file descriptors.

Stdin and stdout are not used: the user's code prints there, and so do Triton's dumps.
"""

from __future__ import annotations

import json
import os
from typing import Any

from .record.unpatched import encode_json, write_all

CHUNK = 1 << 16


class Channel:
    """The guest's end of the connection to the host.

    `stopped`: whether the host asked this process to end.
    """

    def __init__(self, requests_fd: int, replies_fd: int) -> None:
        self.requests_fd = requests_fd
        self.replies_fd = replies_fd
        self.stopped = False
        self._pending = bytearray()
        for fd in (requests_fd, replies_fd):
            os.set_inheritable(fd, False)

    def receive(self) -> dict[str, Any] | None:
        """The next request; None once the host has closed its end.

        Raises:
            ValueError: the request is not a JSON object.
        """
        while b"\n" not in self._pending:
            chunk = os.read(self.requests_fd, CHUNK)
            if not chunk:
                return None
            self._pending += chunk
        line, _, remainder = bytes(self._pending).partition(b"\n")
        self._pending = bytearray(remainder)
        request = json.loads(line)
        if not isinstance(request, dict):
            raise ValueError("a request must be a JSON object")
        return request

    def send(self, reply: dict[str, Any]) -> None:
        """Writes one reply.

        Raises:
            BrokenPipeError: the host has closed its end.
        """
        write_all(self.replies_fd, encode_json(reply).encode() + b"\n")

    def close(self) -> None:
        """Closes both descriptors, so that a forked job cannot write to the host."""
        os.close(self.requests_fd)
        os.close(self.replies_fd)
