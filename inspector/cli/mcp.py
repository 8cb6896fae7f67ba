"""`kinspect mcp`: a Model Context Protocol server for coding agents."""

from __future__ import annotations

from pathlib import Path

from .declared import command, option


@command()
def mcp(
    root: Path = option(
        "Only files below this folder are analysed.  [the working folder]",
        default=Path(),
        metavar="FOLDER",
    ),
) -> None:
    """Serve coding agents over stdin and stdout (Model Context Protocol).

    The tools are those of the Python interface: analyze, lint, show, code, try_cures, compare,
    sweep, emulate, occupancy. The server writes nothing but kinspect's store of compiles; scripts
    run in separate processes, and can do there whatever scripts do. It needs
    the extra `mcp`: `pip install 'kinspect[mcp]'`, or `pip install '.[mcp]'` in a clone.

    An agent starts it by itself; in its settings, for example:

    \b
      {"mcpServers": {"kinspect": {"command": "kinspect", "args": ["mcp", "--root", "kernels"]}}}
    """
    from ..api.mcp_server import serve

    serve(root)
