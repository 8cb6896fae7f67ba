"""`kinspect mcp`: a Model Context Protocol server for coding agents."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="FOLDER",
    help="Only files below this folder are analysed.  [the working folder]",
)
def mcp(root: Path) -> None:
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
