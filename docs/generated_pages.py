"""Pages and pictures that follow from the code: a hook of mkdocs writes them at each build.

Pictures of layouts are those of `kinspect layout`; `pictures.py` draws the others, which stand in
their pages as elements, so that they have the colours of a light or a dark page.
"""

from __future__ import annotations

import importlib
import inspect
import io
import re
from functools import cache
from pathlib import Path
from typing import Any

import click
from kinspect.docs.drawing import Drawing
from kinspect.docs.pictures import PICTURES
from mkdocs.structure.files import File, Files

EXAMPLE = Path(__file__).parent / "examples" / "gemm.ttgir"
LAYOUTS = {
    # picture -> layout or value of the example, as `kinspect layout` takes it
    "explanation/blocked.svg": "#blocked",
    "explanation/mfma.svg": "#mma",
    "explanation/shared.svg": "#shared",
}
_IMAGE = re.compile(r'<img alt="[^"]*" src="(?:[^"]*/)?(?P<name>[\w-]+\.svg)" ?/?>')


def on_files(files: Files, config: Any) -> Files:
    """Adds the reference and the pictures to the site."""
    pages = {
        "reference/commands.md": commands(),
        "reference/python.md": python_interface(),
        "reference/metrics.md": metrics(),
        "reference/rules.md": rules(),
        "reference/targets.md": targets(),
        **{path: layout(name) for path, name in LAYOUTS.items()},
        **{path: drawing(path).svg(alone=True) for path in PICTURES},
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Puts drawings into a page in place of the images that name them."""
    drawn = {path.rpartition("/")[2]: path for path in PICTURES}

    def element(image: re.Match[str]) -> str:
        path = drawn.get(image["name"])
        return image[0] if path is None else drawing(path).svg()

    return _IMAGE.sub(element, html)


@cache
def drawing(path: str) -> Drawing:
    """The drawing at an address of the site."""
    return PICTURES[path]()


def commands() -> str:
    """The help of every command."""
    from kinspect.inspector.cli.group import cli

    parts = ["# Commands\n", "As `--help` prints them.\n"]
    context = click.Context(cli, info_name="kinspect")
    for path, command in _commands(cli, context, ("kinspect",)):
        own = click.Context(command, info_name=" ".join(path))
        parts.append(f"## {' '.join(path)}\n\n```text\n{command.get_help(own)}\n```\n")
    return "\n".join(parts)


def _commands(group: click.Group, context: click.Context, path: tuple[str, ...]) -> Any:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from _commands(command, context, (*path, name))


def python_interface() -> str:
    """Every public name with its signature and docstring."""
    kinspect = importlib.import_module("kinspect")
    parts = ["# Python\n", "`import kinspect` offers these names, and no others are stable.\n"]
    for name in sorted(kinspect.__all__):
        value = getattr(kinspect, name)
        if not callable(value):
            continue
        parts.append(f"## {name}\n\n```python\n{name}{_signature(value)}\n```\n")
        parts.append(_docstring(value))
        if inspect.isclass(value):
            for member, attribute in vars(value).items():
                if member.startswith("_") or not inspect.getdoc(attribute):
                    continue
                signature = "" if isinstance(attribute, property) else _signature(attribute)
                parts.append(f"**`.{member}{signature}`**\n\n{_docstring(attribute)}")
    return "\n".join(parts)


def _signature(value: Any) -> str:
    try:
        return str(inspect.signature(value)).replace("'", "")
    except ValueError:
        return "(…)"


def _docstring(value: Any) -> str:
    """A docstring in Google's style as Markdown: its sections become lists."""
    lines = []
    for line in (inspect.getdoc(value) or "").splitlines():
        if line in ("Args:", "Returns:", "Raises:", "Attributes:"):
            lines += ["", f"*{line.removesuffix(':')}*", ""]
        elif line.startswith("    ") and not line.startswith("     ") and ": " in line:
            name, _, text = line.strip().partition(": ")
            lines.append(f"- `{name}`: {text}")
        elif line.startswith(">>>") or (lines and lines[-1].startswith("    >>>")):
            lines.append(f"    {line}")
        else:
            lines.append(line.strip() if line.startswith("        ") else line)
    return "\n".join(lines) + "\n"


def metrics() -> str:
    """All metrics with unit, origin and meaning."""
    from kinspect.inspector.metrics.catalogue import specs

    rows = ["# Metrics\n", "| name | unit | origin | of | meaning |", "|---|---|---|---|---|"]
    for spec in specs():
        cells = (f"`{spec.name}`", spec.unit, spec.origin, spec.scope, _cell(spec.description))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def rules() -> str:
    """All rules of the bundled packs: what they look for and what to do."""
    from kinspect.inspector.lint.schema import bundled_packs, load_named
    from kinspect.inspector.metrics.catalogue import specs

    parts = ["# Rules\n"]
    for name in bundled_packs():
        pack = load_named(name, specs())
        parts.append(f"## Pack {name}\n\n{pack.description}\n")
        for rule in (rule.text for rule in pack.rules if rule.pack == name):
            terms = f"{rule.severity}, {rule.confidence}, {rule.status}; of each {rule.scope}"
            fix = f"*What to change:* {_escaped(rule.fix)}"
            parts += [
                f"### {rule.id} {rule.name}\n",
                terms,
                "",
                _escaped(rule.explain),
                "",
                fix,
                "",
            ]
    return "\n".join(parts)


def targets() -> str:
    """The limits of each target."""
    from kinspect.inspector import machines

    parts = ["# Targets\n", "`kinspect arch show NAME` adds the source of each figure.\n"]
    parts += ["| target | name | family |", "|---|---|---|"]
    for name in machines.names():
        machine = machines.load(name)
        parts.append(f"| {name} | {machine.name} | {machine.family} |")
    return "\n".join(parts) + "\n"


def layout(name: str) -> str:
    """A layout of the example as SVG, as `kinspect layout` draws it."""
    from click.testing import CliRunner
    from kinspect.inspector.cli.group import cli

    result = CliRunner().invoke(cli, ["layout", str(EXAMPLE), name, "--format", "svg"])
    if result.exit_code:
        raise RuntimeError(f"{name}: {result.output}")
    return io.StringIO(result.output).getvalue()


def _cell(text: str) -> str:
    return _escaped(text).replace("|", "\\|").replace("\n", " ")


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("[[", "[").replace("]]", "]")
