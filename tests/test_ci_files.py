"""The GitHub Action and the hooks: valid, true to the command line, and safe from their inputs."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
import yaml
from kinspect.inspector.cli.lint import lint
from kinspect.inspector.cli.rules import rules

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "data"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
GUIDE = (ROOT / "rules" / "CI.md").read_text()
COMMANDS: Mapping[str, click.Command] = {
    "kinspect lint": lint,
    "kinspect rules check": rules.commands["check"],
}

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


def options_of(command: click.Command) -> set[str]:
    return {
        name
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


# --------------------------------------------------------------------------- valid


def test_the_action_is_one_by_githubs_schema() -> None:
    schema = json.loads((DATA / "schemas" / "github-action.json").read_text())
    jsonschema.Draft7Validator(schema).validate(ACTION)


def test_inputs_never_become_part_of_a_command() -> None:
    """An expression in a script is pasted into its text before the shell reads it."""
    for step in STEPS.values():
        assert "${{" not in step.get("run", "")


def test_every_input_is_used_and_every_use_is_an_input() -> None:
    used = set(re.findall(r"inputs\.([a-z-]+)", json.dumps(ACTION["runs"])))
    assert used == set(ACTION["inputs"])
    steps = set(re.findall(r"steps\.lint\.outputs\.([a-z]+)", json.dumps(ACTION)))
    written = set(re.findall(r'echo "([a-z]+)=', STEPS["Lint"]["run"]))
    assert steps == written


def test_every_variable_of_a_script_is_given() -> None:
    for name, step in STEPS.items():
        used = set(re.findall(r"\$\{?(KINSPECT_[A-Z_]+)", step.get("run", "")))
        assert used == set(step.get("env", {})), name


def test_options_of_the_action_exist() -> None:
    used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", STEPS["Lint"]["run"]))
    assert {"--rules", "--format", "--output", "--baseline"} <= used
    assert used <= options_of(lint)
    (fail_on,) = (p for p in lint.params if p.name == "fail_on")
    assert isinstance(fail_on.type, click.Choice)
    assert ACTION["inputs"]["fail-on"]["default"] in fail_on.type.choices


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_hooks_are_true_to_the_command_line(hook: dict[str, Any]) -> None:
    assert hook["language"] == "python"
    assert hook["require_serial"] is True
    re.compile(hook["files"])
    known = options_of(COMMANDS[hook["entry"]])
    assert {arg.partition("=")[0] for arg in hook.get("args", [])} <= known


def test_what_the_hooks_look_at() -> None:
    files = {hook["id"]: re.compile(hook["files"]) for hook in HOOKS}
    assert files["kinspect-lint"].search("build/gemm.amdgcn")
    assert not files["kinspect-lint"].search("src/boot.s")  # it may be for any processor
    assert files["kinspect-lint-hip"].search("src/gemm.hip")
    assert files["kinspect-lint-triton"].search("my/kernels/gemm.py")
    assert not files["kinspect-lint-triton"].search("setup.py")
    assert files["kinspect-rules"].search("ci/kinspect-rules.yaml")


def test_the_guide_is_true() -> None:
    """Its workflows and settings are parsed; what they name exists."""
    blocks = [yaml.safe_load(b) for b in re.findall(r"```yaml\n(.*?)```", GUIDE, re.S)]
    workflows = [b for b in blocks if "jobs" in b]
    assert workflows
    for workflow in workflows:
        steps = [s for job in workflow["jobs"].values() for s in job["steps"]]
        ours = [s for s in steps if "kinspect" in s.get("uses", "")]
        for step in ours:
            assert set(step["with"]) <= set(ACTION["inputs"])
            assert {k for k, v in ACTION["inputs"].items() if v.get("required")} <= set(
                step["with"]
            )
    hooks = [h for b in blocks if "repos" in b for repo in b["repos"] for h in repo["hooks"]]
    assert hooks
    assert {h["id"] for h in hooks} <= {hook["id"] for hook in HOOKS}
    documented = set(re.findall(r"^\| `([a-z-]+)` \|", GUIDE, re.M))
    assert documented == set(ACTION["inputs"])
    for line in re.findall(r"^kinspect lint .*$", GUIDE, re.M):
        assert set(re.findall(r"--[a-z-]+", line)) <= options_of(lint)


# --------------------------------------------------------------------------- run


@dataclass(frozen=True)
class Runner:
    """A stand-in for GitHub's runner: evaluates a step's `env`, runs its script."""

    folder: Path

    def run(self, name: str, outputs: Mapping[str, str] | None = None, **inputs: str) -> Any:
        step = STEPS[name]
        given = {k: v.get("default", "") for k, v in ACTION["inputs"].items()}
        given |= {k.replace("_", "-"): v for k, v in inputs.items()}
        values = {f"inputs.{k}": v for k, v in given.items()}
        values |= {f"steps.lint.outputs.{k}": v for k, v in (outputs or {}).items()}
        values["github.action_path"] = str(ROOT)
        env = {
            k: re.sub(r"\$\{\{ *([^ }]+) *\}\}", lambda m: values[m[1]], v)
            for k, v in step.get("env", {}).items()
        }
        script = self.folder / "step.sh"
        script.write_text(step["run"])
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
            cwd=self.folder,
            env={
                **os.environ,
                **env,
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                "RUNNER_TEMP": str(self.folder / "temp"),
                "GITHUB_OUTPUT": str(self.folder / "output"),
                "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
                "GITHUB_WORKSPACE": str(self.folder),
            },
            capture_output=True,
            text=True,
            timeout=300,
        )

    def outputs(self) -> dict[str, str]:
        lines = (self.folder / "output").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def lint(self, **inputs: str) -> tuple[Any, dict[str, str]]:
        done = self.run("Lint", **inputs)
        return done, self.outputs()


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """A folder with a kernel, and the commands that a runner would have."""
    for name in ("bin", "temp"):
        (tmp_path / name).mkdir()
    shutil.copy(DATA / "small_gfx942.s", tmp_path / "small.s")
    shutil.copy(ROOT / "tests" / "golden" / "lint_small.yaml", tmp_path / "pack.yaml")
    commands = {
        "kinspect": f'exec "{Path(sys.executable).with_name("kinspect")}" "$@"',
        # Nothing is installed: what would be is written down. Scripts on stdin run.
        "python": f'[[ "$*" = *-m* ]] || exec "{sys.executable}" "$@"; echo "$*" >> "$HOME_LOG"',
    }
    for name, text in commands.items():
        path = tmp_path / "bin" / name
        path.write_text("#!/bin/bash\n" + text.replace("$HOME_LOG", str(tmp_path / "installed")))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return Runner(tmp_path)


@needs_bash
@pytest.mark.parametrize("name", ["Install", "Lint", "Verdict"])
def test_scripts_are_bash(name: str) -> None:
    done = subprocess.run(
        ["bash", "-n"], input=STEPS[name]["run"], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


@needs_bash
@pytest.mark.parametrize(("fail_on", "status"), [("error", "1"), ("never", "0")])
def test_a_run_with_findings(runner: Runner, fail_on: str, status: str) -> None:
    done, outputs = runner.lint(targets="small.s\n", rules="pack.yaml", fail_on=fail_on)
    assert done.returncode == 0, done.stderr
    assert outputs["status"] == status
    log = json.loads(Path(outputs["sarif"]).read_text())
    assert [r["ruleId"] for r in log["runs"][0]["results"]] == ["T001"]
    (place,) = log["runs"][0]["results"][0]["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "small.s"
    assert "T001 spills-in-hot-loop" in (runner.folder / "summary.md").read_text()
    assert "::error" not in done.stdout
    assert str(runner.run("Verdict", outputs).returncode) == status


@needs_bash
def test_without_upload_findings_are_annotations(runner: Runner) -> None:
    done, _ = runner.lint(targets="small.s", rules="pack.yaml", upload_sarif="false")
    assert "::error file=small.s,line=22,title=T001 spills-in-hot-loop::" in done.stdout


@needs_bash
def test_suppressed_findings_stay_out_of_the_upload(runner: Runner) -> None:
    path = runner.folder / "small.s"
    path.write_text("; kinspect: ignore-file[T001] on purpose\n" + path.read_text())
    _, outputs = runner.lint(targets="small.s", rules="pack.yaml")
    assert outputs["status"] == "0"
    kept = json.loads(Path(outputs["sarif"]).read_text())["runs"][0]["results"]
    assert [r["suppressions"][0]["justification"] for r in kept] == ["on purpose"]
    assert json.loads(Path(outputs["upload"]).read_text())["runs"][0]["results"] == []


@needs_bash
def test_an_error_is_an_error(runner: Runner) -> None:
    done, outputs = runner.lint(targets="missing.s")
    assert done.returncode == 0
    assert outputs == {"status": "2"}  # nothing to upload
    assert "missing.s" in done.stderr
    assert runner.run("Verdict", outputs).returncode == 2


@needs_bash
@pytest.mark.parametrize(
    "inputs",
    [
        {"targets": "small.s; touch pwned"},
        {"targets": "$(touch pwned)"},
        {"targets": "small.s", "arch": '"; touch pwned; "'},
        {"targets": "small.s", "fail_on": "`touch pwned`"},
        {"targets": "small.s", "rules": "x' && touch pwned #"},
        {"targets": "small.s", "baseline": "$(touch pwned)"},
    ],
)
def test_inputs_are_words(runner: Runner, inputs: dict[str, str]) -> None:
    for step in ("Install", "Lint"):
        runner.run(step, **inputs)
    assert not (runner.folder / "pwned").exists()
    assert runner.outputs()["status"] == "2"


@needs_bash
def test_modules_of_the_linted_repository_are_not_imported(runner: Runner) -> None:
    (runner.folder / "json.py").write_text("open('pwned', 'w')")
    _, outputs = runner.lint(targets="small.s", rules="pack.yaml")
    assert json.loads(Path(outputs["upload"]).read_text())["runs"]
    assert not (runner.folder / "pwned").exists()
    assert "python -m" not in STEPS["Install"]["run"]


@needs_bash
def test_a_target_is_no_option(runner: Runner) -> None:
    done = runner.run("Lint", targets="--output=pwned\nsmall.s")
    assert done.returncode == 2
    assert not (runner.folder / "pwned").exists()


@needs_bash
@pytest.mark.parametrize(
    ("targets", "triton", "installs"),
    [
        ("small.s", "3.9.0", False),
        ("small.s\nkernel.py", "3.9.0", True),
        ("kernel.py::gemm\r\n", "3.6.0", True),
        ("folder", "3.9.0", True),
        ("empty", "3.9.0", False),
        ("kernel.py", "none", False),
    ],
)
def test_triton_comes_only_with_what_compiles(
    runner: Runner, targets: str, triton: str, installs: bool
) -> None:
    (runner.folder / "folder").mkdir()
    (runner.folder / "folder" / "kernel.py").touch()
    (runner.folder / "empty").mkdir()
    assert runner.run("Install", targets=targets, triton=triton).returncode == 0
    lines = (runner.folder / "installed").read_text().splitlines()
    assert lines[0].endswith(f"install --quiet --disable-pip-version-check {ROOT}")
    assert any(line.endswith(f"triton=={triton}") for line in lines) is installs
    assert len(lines) == (3 if installs else 1)


def test_whatever_installs_torch_names_the_index_of_the_cpus() -> None:
    """PyPI's brings gigabytes of CUDA."""
    hooks = [hook.get("additional_dependencies", []) for hook in HOOKS]
    for texts in (*hooks, (STEPS["Install"]["run"],)):
        if "torch" in " ".join(texts):
            assert "index-url=https://download.pytorch.org/whl/cpu" in " ".join(texts).replace(
                "index-url ", "index-url="
            )
