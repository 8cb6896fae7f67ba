"""torch.compile's kernels here and on a GPU: `python -m benchmarks.compiled_fidelity`.

Each script of benchmarks/compiled/ is run twice, with the same torch. `record` runs it on a GPU of
any vendor whose properties are replaced by an AMD GPU's, with torch's own tensors, operators and
autograd. `generate` runs it in kinspect's world, which has no GPU. Both keep what Inductor wrote
before it is compiled; `compare` holds the kernels' sources against each other, letter by letter.

    python -m benchmarks.compiled_fidelity record recorded.json      (on a machine with a GPU)
    python -m benchmarks.compiled_fidelity generate generated.json   (with the same torch)
    python -m benchmarks.compiled_fidelity compare recorded.json generated.json

Neither needs kinspect to be installed, only this folder's repository as the working folder.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = Path(__file__).parent
SCRIPTS = HERE / "compiled"
GUEST = HERE.parent / "inspector" / "guest"
KERNEL = re.compile(r"async_compile\.triton\('(\w+)', '''(.*?)'''", re.DOTALL)
OF_A_RUN = re.compile(r"'backend_hash': '\w+'|# kernel path: .*")
"""What differs from machine to machine: hashes of the installation, and cache folders."""
DEVICE = {"arch": "gfx942", "wave_size": 64, "compute_units": 304, "lds_bytes": 65536}
_REJECTED_TIME = 1e6
"""Time of the kernels that are not to be chosen."""


def main() -> None:
    """Runs one of the three steps, or, below `record` and `generate`, one script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("step", choices=("record", "generate", "compare"))
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--script", type=Path)
    stated = parser.parse_args()
    if stated.step == "compare":
        compare(*(json.loads(path.read_text()) for path in stated.files))
    elif stated.script is None:
        gather(stated.step, stated.files[0])
    else:
        texts = (record if stated.step == "record" else generate)(stated.script)
        stated.files[0].write_text(json.dumps(texts))


def gather(step: str, into: Path) -> None:
    """Runs each script in a process of its own: neither world can be left again."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for script in sorted(SCRIPTS.glob("*.py")):
            out = Path(folder) / "texts.json"
            out.write_text("[]")
            command = [sys.executable, __file__, step, str(out), "--script", str(script)]
            environment = dict(os.environ)
            if step == "generate":
                environment["CUDA_VISIBLE_DEVICES"] = ""
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            found[script.stem] = json.loads(out.read_text())
            print(f"{script.stem}: {len(found[script.stem])} graphs")
            if done.returncode:
                print(done.stderr[-2000:])
    into.write_text(json.dumps(found))


def guest() -> Any:
    """The guest package of kinspect, loaded as its workers load it."""
    name = "_kinspect_guest"
    where = [str(GUEST)]
    spec = importlib.util.spec_from_file_location(
        name, GUEST / "__init__.py", submodule_search_locations=where
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    return package


def generate(script: Path) -> list[str]:
    """What Inductor writes in kinspect's world."""
    name = guest().__name__
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()
    device = importlib.import_module(f"{name}.world.device").StandInDevice.of(DEVICE)
    world = importlib.import_module(f"{name}.world").install(device, tempfile.mkdtemp())
    texts: list[str] = []
    world.generate(lambda generated: texts.append(generated.text), 1)
    with world.running():
        _run(script)
    return texts


def record(script: Path) -> list[str]:
    """What Inductor writes on a real GPU that is said to be an AMD one."""
    import torch

    name = guest().__name__
    device = importlib.import_module(f"{name}.world.device").StandInDevice.of(DEVICE)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()
    torch.zeros(1, device="cuda")
    _claim_device(torch, device)
    texts: list[str] = []
    _record_texts(torch, texts)
    _run(script)
    return texts


def _run(script: Path) -> None:
    try:
        runpy.run_path(str(script), run_name="__main__")
    except BaseException:  # what was written until then counts
        traceback.print_exc()


def _claim_device(torch: Any, device: Any) -> None:
    """Gives a real GPU an AMD GPU's properties, where torch and Triton are asked for them."""
    driver = importlib.import_module("triton.runtime").driver
    target = importlib.import_module("triton.backends.compiler").GPUTarget
    real = driver.active
    real.get_current_target()  # made while torch is still that of the real GPU

    class Claimed:
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def get_current_target(self) -> Any:
            return target("hip", device.arch, device.wave_size)

    driver.set_active(Claimed())
    properties = SimpleNamespace(**device.torch_properties())
    torch.version.hip = "6.4"
    torch.cuda.get_device_properties = lambda *args, **kwargs: properties
    torch.cuda.get_device_capability = lambda *args, **kwargs: device.capability
    torch._C._cuda_getDeviceProperties = lambda *args, **kwargs: properties


def _record_texts(torch: Any, texts: list[str]) -> None:
    """Makes Inductor's texts go to `texts` before they are compiled; the traced graphs run."""
    _configure_inductor()
    module: Any = importlib.import_module("torch._inductor.compile_fx")
    graph: Any = importlib.import_module("torch._inductor.graph").GraphLowering

    def take_text(lowering: Any) -> Any:
        code = lowering.codegen()[0]
        texts.append(getattr(code, "value", code))
        raise RuntimeError("the code is recorded, and not compiled")

    def compile_inner(graph: Any, inputs: Any, **kwargs: Any) -> Any:
        count = len(texts)
        try:
            module.compile_fx_inner(graph, inputs, **kwargs)
        except Exception:
            if len(texts) == count:
                traceback.print_exc()

        def run(args: Any) -> Any:
            return graph.forward(*args)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def call(wrapper: Any, model: Any, inputs: Any) -> Any:
        module.compile_fx(model, inputs, inner_compile=compile_inner, config_patches=wrapper.config)
        return model.forward

    graph.compile_to_module = take_text
    torch._TorchCompileInductorWrapper.__call__ = call


def _configure_inductor() -> None:
    """Makes Inductor work in this process, without caches, and choose its first own kernel."""
    config: Any = importlib.import_module("torch._inductor.config")
    config.compile_threads = 1
    config.force_disable_caches = True
    config.benchmark_epilogue_fusion = False
    functorch: Any = importlib.import_module("torch._functorch.config")
    functorch.force_non_lazy_backward_lowering = True
    select: Any = importlib.import_module("torch._inductor.select_algorithm")

    def choose_first(cache: Any, *args: Any, **kwargs: Any) -> dict[Any, float]:
        choices = args[5]
        templates = [c for c in choices if isinstance(c, select.TritonTemplateCaller)]
        return {**dict.fromkeys(choices, _REJECTED_TIME), **dict.fromkeys(templates[:1], 1.0)}

    select.AlgorithmSelectorCache.do_autotuning = choose_first
    select.AlgorithmSelectorCache.make_precompile_fn = lambda *args, **kwargs: lambda: None


def kernels(text: str) -> dict[str, str]:
    """Name -> source of the kernels in what Inductor wrote."""
    return {name: OF_A_RUN.sub("", source) for name, source in KERNEL.findall(text)}


def compare(recorded: Mapping[str, Sequence[str]], generated: Mapping[str, Sequence[str]]) -> None:
    """Prints, script by script, how many kernels are the same."""
    total = same = 0
    print(
        "| script | graphs recorded | graphs generated | kernels | equal |\n|---|---|---|---|---|"
    )
    for name, texts in sorted(recorded.items()):
        ours = generated.get(name, ())
        pairs = [
            (source, kernels(ours[n]).get(kernel) if n < len(ours) else None)
            for n, text in enumerate(texts)
            for kernel, source in kernels(text).items()
        ]
        equal = sum(left == right for left, right in pairs)
        total, same = total + len(pairs), same + equal
        print(f"| {name} | {len(texts)} | {len(ours)} | {len(pairs)} | {equal} |")
    print(f"\n{same} of {total} kernels are equal, letter by letter.")


if __name__ == "__main__":
    main()
