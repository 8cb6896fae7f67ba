"""Makes a process that runs a user's file believe in the machine that the file is to find."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Sequence

from ..lowering import target
from . import benchmarking, rocm
from . import stubs as stub_modules
from .bare_world import INTERPRET, World
from .device import StandInDevice, activate
from .rocm import install_smi
from .stubs import patch_imports


def install(
    device: StandInDevice,
    folder: str,
    *,
    stubs: Sequence[str] = (),
    max_values: int | None = None,
    all_contents: bool = False,
    values_are_real: bool = False,
) -> World:
    """Makes this process believe in the given GPU. Cannot be undone: fork first.

    `folder` is an existing scratch folder and takes a small ROCm tree; `max_values` limits the x
    values of Triton's benchmarks. With `all_contents` tensors of any size have contents: where all
    kernels are executed; `values_are_real` means that each launch is executed whole, so that checks
    of results compare them, and implies `all_contents`.

    Raises:
        ValueError: a module in `stubs` cannot be replaced.
    """
    stub_modules.install(stubs)
    driver = activate(target(device.arch), device)
    rocm.install(device, folder)
    install_smi(device)
    os.environ.pop(INTERPRET, None)
    # A knob that is set takes precedence over the environment, which the script may change.
    importlib.import_module("triton.knobs").runtime.interpret = False
    kind = World
    if importlib.util.find_spec("torch") is not None:
        if all_contents or values_are_real:
            importlib.import_module(".tensors", __package__).keep_all_contents(values_are_real)
        kind = importlib.import_module(".torch_world", __package__).TorchWorld
    world = kind(device, driver)
    benchmarking.install(world.note, max_values, failures_are_real=values_are_real)
    patch_imports(world.note, world.import_patches())
    return world
