"""Pages and pictures that follow from the code: a hook of mkdocs writes them at each build.

Pictures of layouts are those of `kinspect layout`; `pictures.py` draws the others. They stand in
their pages as elements, so that they have the colours of a light or a dark page.
"""

from __future__ import annotations

import importlib
import inspect
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
    # picture -> value of the example, as `kinspect layout` takes it
    "explanation/blocked.svg": "%right_24",
    "explanation/mfma.svg": "%cst_1",
    "explanation/shared.svg": "%left_32",
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

    def element(image: re.Match[str]) -> str:
        path = f"explanation/{image['name']}"
        if path in LAYOUTS:
            return _in_colours_of_page(layout(LAYOUTS[path]))
        return drawing(path).svg() if path in PICTURES else image[0]

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
    parts.append(f"```text\n{cli.get_help(context)}\n```\n")
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


_RECORDS = {
    # what functions return, and what results hold, besides the public classes
    "Occupancy": "kinspect.inspector.metrics.occupancy",
    "ScriptFailure": "kinspect.inspector.pipeline.emulation",
    "EmulationFinding": "kinspect.inspector.pipeline.emulation_profile",
    "EmulationProfile": "kinspect.inspector.pipeline.emulation_profile",
    "BufferState": "kinspect.inspector.pipeline.emulated_code",
}


def python_interface() -> str:
    """Every public name with its signature and docstring, and the fields of other results."""
    kinspect = importlib.import_module("kinspect")
    public = {name: getattr(kinspect, name) for name in sorted(kinspect.__all__)}
    functions = {name: value for name, value in public.items() if inspect.isfunction(value)}
    classes = {name: value for name, value in public.items() if inspect.isclass(value)}
    parts = ["# Python\n", "`import kinspect` offers these names, and no others are stable.\n"]
    parts.append("## Functions\n")
    for name, function in functions.items():
        parts.append(f"### {name}\n\n```python\n{name}{_signature(function)}\n```\n")
        parts.append(_docstring(function))
    parts.append("## Classes\n")
    for name, value in classes.items():
        parts.append(f"### {name}\n")
        if name in _CONSTRUCTED:
            parts.append(f"```python\n{name}{_signature(value)}\n```\n")
        parts.append(_docstring(value, arguments=name in (*_CONSTRUCTED, "KinspectError")))
        for member, attribute in vars(value).items():
            if member.startswith("_") or not inspect.getdoc(attribute):
                continue
            signature = "" if isinstance(attribute, property) else _signature(attribute)
            parts.append(f"**`.{member}{signature}`**\n\n{_docstring(attribute)}")
    parts += ["## Records of `occupancy`, `emulate` and `emulate_code`\n"]
    for name, module in _RECORDS.items():
        value = getattr(importlib.import_module(module), name)
        fields = ", ".join(f"`{field}`" for field in value.__struct_fields__)
        parts.append(f"### {name}\n\nFields: {fields}.\n\n{_docstring(value)}")
    return "\n".join(parts)


_CONSTRUCTED = frozenset(("T",))
"""Public classes that a program makes itself; functions return the others."""


def _signature(value: Any) -> str:
    """The parameters of a function: annotations as they are written, without `self`."""
    signature = inspect.signature(value)
    parameters = [
        parameter.replace(annotation=_Written(parameter.annotation))
        if isinstance(parameter.annotation, str)
        else parameter
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    result = signature.return_annotation
    text = str(inspect.Signature(parameters))
    return text if result in (inspect.Signature.empty, None, "None") else f"{text} -> {result}"


class _Written(str):
    """An annotation that prints as it is written."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _docstring(value: Any, *, arguments: bool = True) -> str:
    """A docstring in Google's style as Markdown: its sections become lists.

    Args:
        value: has it.
        arguments: whether its section of arguments is of use.
    """
    text = inspect.getdoc(value) or ""
    lines = []
    for line in (text if arguments else text.partition("\nArgs:")[0]).splitlines():
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

    rows = [
        "# Metrics\n",
        "What a report may hold of a kernel, of each of its loops (for one iteration), or of both. "
        "`kinspect metrics list PATTERN` finds metrics by name, field or meaning.\n",
        "| origin | means |",
        "|---|---|",
        "| compiler | read off the compiler's output |",
        "| derived | computed from what was read |",
        "| estimated | rests on a model or on figures that nobody publishes |",
        "| emulated | counted while the code was executed on the CPU (`--emulate`) |",
        "| measured | by a profiler on a GPU |",
        "",
        "`*` in a name stands for a class of instructions (`count.mfma`) or a wait counter "
        "(`waits.vmcnt`). `null` in JSON and `?` in text are unknown.\n",
        "| name | unit | origin | of | meaning |",
        "|---|---|---|---|---|",
    ]
    for spec in specs():
        cells = (f"`{spec.name}`", spec.unit, spec.origin, spec.scope, _cell(spec.description))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def rules() -> str:
    """All rules of the bundled packs: what they look for and what to do."""
    from kinspect.inspector.lint.packs import bundled_packs, load_named
    from kinspect.inspector.pipeline.analysis import catalogue

    parts = [
        "# Rules\n",
        "Below each name stand the severity, how surely static figures show it, and whether the "
        "rule is stable or in preview, which is asked only by `--select`. `kinspect rules show ID` "
        "adds the conditions, the metrics that they read, and what came of the fix on real "
        "kernels. In a fix `{…}` stands for a figure of the kernel; what is in square brackets is "
        "printed only where its figures are known.\n",
    ]
    for name in bundled_packs():
        pack = load_named(name, catalogue())
        parts.append(f"## Pack {name}\n\n{_escaped(pack.description)}\n")
        for rule in (rule.text for rule in pack.rules if rule.pack == name):
            parts += [
                f"### {rule.id} {rule.name}\n",
                f"*{rule.severity}, {rule.confidence}, {rule.status}; of each {rule.scope}*\n",
                f"{_escaped(rule.explain)}\n",
                f"**What to change:** {_with_figures(rule.fix)}\n",
                *(f"- [{_escaped(link.title)}]({link.url})" for link in rule.references),
                "",
            ]
    return "\n".join(parts)


def targets() -> str:
    """The limits of each target."""
    from kinspect.inspector import machines

    parts = [
        "# Targets\n",
        "`kinspect arch show NAME` has every figure of a target with its source. Waves and VGPRs "
        "are those of one SIMD, VGPRs for the first wave size.\n",
        "| target | products | family | wave sizes | waves | VGPRs | LDS of a workgroup | lines |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in machines.names():
        machine = machines.load(name)
        line = machine.cache_line_bytes
        cells = (
            name,
            machine.name,
            machine.family,
            ", ".join(map(str, machine.wave_sizes)),
            str(machine.max_waves),
            str(machine.vgpr_total[machine.wave_sizes[0]]),
            f"{machine.lds_max // 1024} KiB",
            "not published" if line is None else f"{line} bytes",
        )
        parts.append(f"| {' | '.join(cells)} |")
    return "\n".join(parts) + "\n"


@cache
def layout(name: str) -> str:
    """A layout of the example as SVG, as `kinspect layout` draws it."""
    from click.testing import CliRunner
    from kinspect.inspector.cli.group import cli

    result = CliRunner().invoke(cli, ["layout", str(EXAMPLE), name, "--format", "svg"])
    if result.exit_code:
        raise RuntimeError(f"{name}: {result.output}")
    return str(result.output)


def _in_colours_of_page(svg: str) -> str:
    """A picture of a layout without its paper, with labels beside cells in the page's colour."""
    svg = svg.replace('<rect width="100%" height="100%" fill="#fff"/>', "")
    svg = svg.replace("<svg ", '<svg style="max-width:100%;height:auto" ', 1)
    return svg.replace('fill="#1c2128"', 'fill="currentColor"').replace(
        'fill="#59636e"', 'fill="currentColor" fill-opacity="0.72"'
    )


def _cell(text: str) -> str:
    return _escaped(text).replace("|", "\\|").replace("\n", " ")


def _escaped(text: str) -> str:
    """A text as Markdown that prints it, but for its code in backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    for index in range(0, len(parts), 2):
        plain = parts[index].replace("<", "&lt;").replace("[[", "\\[").replace("]]", "\\]")
        parts[index] = re.sub(r"([*_])", r"\\\1", plain)
    return "".join(parts)


def _with_figures(text: str) -> str:
    """A fix, its figures in braces as code."""
    return _escaped(re.sub(r"\{[^{}]*\}", lambda figure: f"`{figure[0]}`", text))
