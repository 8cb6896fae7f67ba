"""`kinspect tui --web`: the terminal UI in a browser on this machine.

textual-serve runs the command once for each browser window and carries keys and screens over a
WebSocket. It listens on 127.0.0.1 alone. Another user of this machine, or a page of another site in
the same browser, could reach that address too, and then type into a program that writes files:
everything lies below a path that only the address on the terminal tells.
"""

from __future__ import annotations

import errno
import os
import secrets
import shlex
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..inspector.base.errors import KinspectError
from ..inspector.base.programs import python_child

HOST = "127.0.0.1"
DRIVER = "TEXTUAL_DRIVER"
"""The environment variable that textual-serve sets for programs that draw for a browser."""


def in_browser() -> bool:
    """Whether this process draws for a browser, and so has no terminal and needs none."""
    return "web_driver" in os.environ.get(DRIVER, "")


def command_line(argv: Sequence[str]) -> list[str]:
    """The arguments without --web and --port; those after `--`, which are a script's, all stay."""
    tui_arguments: list[str] = []
    arguments = iter(argv)
    for argument in arguments:
        if argument == "--":
            return [*tui_arguments, argument, *arguments]
        if argument == "--port":
            next(arguments, None)
        elif argument != "--web" and not argument.startswith("--port="):
            tui_arguments.append(argument)
    return tui_arguments


def serve(port: int, argv: Sequence[str] | None = None) -> int:
    """Serves the terminal UI until Ctrl-C.

    Raises:
        KinspectError: textual-serve is not installed, or the port cannot be bound.
    """
    server = _loopback_server()
    _check_port(port)
    arguments = command_line(sys.argv[1:] if argv is None else argv)
    child = python_child("kinspect.inspector.cli.main", "console_script")
    server(shlex.join([*child, *arguments]), host=HOST, port=port, title="kinspect").serve()
    return 0


def _loopback_server() -> Callable[..., Any]:
    """The class of the server, which is derived from a package that is not always installed."""
    try:
        from aiohttp import web
        from textual_serve.server import Server
    except ImportError:
        raise KinspectError(
            "tui --web: textual-serve is not installed", "pip install 'kinspect[web]'"
        ) from None

    secret = f"/{secrets.token_urlsafe(16)}"

    class Loopback(Server):
        """textual-serve for this machine's user alone."""

        async def _make_app(self) -> web.Application:
            app = web.Application()
            app.add_subapp(secret, await super()._make_app())
            return app

        async def on_startup(self, app: web.Application) -> None:
            """Prints nothing before the server listens."""

        def serve(self, debug: bool = False) -> None:
            """Serves until Ctrl-C."""
            web.run_app(self._make_app(), host=self.host, port=self.port, print=self._listening)

        def _listening(self, *_: object) -> None:
            sys.stderr.write(f"kinspect: {self.public_url}{secret}/ (Ctrl-C ends it)\n")
            sys.stderr.flush()

    return Loopback


def _check_port(port: int) -> None:
    """Checks that the port is free, before aiohttp fails with a traceback."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            hint = "name another with --port"
            if error.errno == errno.EADDRINUSE:
                raise KinspectError(f"port {port} of {HOST} is taken", hint) from None
            raise KinspectError(f"port {port} of {HOST}: {error.strerror}", hint) from None
