"""The world a script believes in: each test runs in a forked child, since it cannot be undone."""

from __future__ import annotations

import copy
import functools
import importlib
import io
import math
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.guest.world.device import StandInDevice as Device
from kinspect.inspector.guest.world.machine import World, install

triton = pytest.importorskip("triton")
torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
nn = torch.nn
F = torch.nn.functional
tl = importlib.import_module("triton.language")
LIMIT_SECONDS = 60


def in_world(
    arch: str = "gfx942", **options: Any
) -> Callable[[Callable[[World], None]], Callable[[], None]]:
    """Makes a test of a function that is run inside a world, in a child of this process."""

    def decorate(body: Callable[[World], None]) -> Callable[[], None]:
        @functools.wraps(body)
        def test() -> None:
            failure = _in_child(body, arch, options)
            assert not failure, failure

        del test.__wrapped__  # pytest would look for a fixture named `world`
        return test

    return decorate


def _in_child(body: Callable[[World], None], arch: str, options: dict[str, Any]) -> str:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(LIMIT_SECONDS)
        text = ""
        try:
            folder = tempfile.mkdtemp(dir=os.environ.get("PYTEST_SCRATCH"))
            world = install(Device.of(arch), folder, **options)
            with world.running():
                body(world)
        except BaseException:
            text = traceback.format_exc()
        os.write(write, text.encode()[-60_000:])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        text = stream.read().decode()
    _, status = os.waitpid(pid, 0)
    return text or ("" if status == 0 else f"the child ended with status {status}")


@pytest.fixture(autouse=True)
def _scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_SCRATCH", str(tmp_path))


# ----- the device


@pytest.mark.parametrize(
    ("arch", "capability", "wave", "lds"),
    [
        ("gfx90a", (9, 0), 64, 65536),
        ("gfx942", (9, 4), 64, 65536),
        ("gfx950", (9, 5), 64, 163840),
        ("gfx1030", (10, 3), 32, 65536),
        ("gfx1100", (11, 0), 32, 65536),
        ("gfx1151", (11, 5), 32, 65536),
        ("gfx1201", (12, 0), 32, 65536),
        ("gfx1250", (12, 5), 32, 327680),
    ],
)
def test_device_of_an_arch(arch: str, capability: tuple[int, int], wave: int, lds: int) -> None:
    device = Device.of(arch)
    assert device.capability == capability
    assert (device.wave_size, device.lds_bytes) == (wave, lds)
    assert device.triton_properties()["arch"].split(":")[0] == arch


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"])
def test_device_agrees_with_the_machine_files(arch: str) -> None:
    from kinspect.inspector.machines.loader import load

    machine, device = load(arch), Device.of(arch)
    assert device.lds_bytes == machine.lds_max
    assert device.wave_size in machine.wave_sizes
    if machine.cus is not None:
        assert device.compute_units == machine.cus


def test_device_takes_what_the_host_states() -> None:
    device = Device.of({"arch": "gfx942:sramecc+", "lds_bytes": 1024, "name": None, "odd": 1})
    assert (device.arch, device.lds_bytes, device.name) == ("gfx942", 1024, "AMD Instinct MI300X")
    with pytest.raises(ValueError, match="arch"):
        Device.of({})


def test_rdna_multiprocessors_are_work_group_processors() -> None:
    assert Device.of("gfx1100").multiprocessors == 48
    assert Device.of("gfx942").multiprocessors == 304


@in_world("gfx950")
def test_driver_and_torch_answer_for_the_device(world: World) -> None:
    driver = importlib.import_module("triton.runtime").driver
    assert driver.active is world.driver
    assert driver.active.get_current_target().arch == "gfx950"
    properties = driver.active.utils.get_device_properties(0)
    assert properties["max_shared_mem"] == 160 << 10
    assert properties["multiprocessor_count"] == 256
    driver.reset_active()
    assert driver.active is world.driver
    assert driver.active.get_device_capability() == (9, 5)
    assert driver.active.get_device_interface() is torch.cuda
    assert driver.active.get_active_torch_device() == torch.device("cuda", 0)
    driver.active.clear_cache(driver.active.get_empty_cache_for_benchmark())
    assert torch.version.hip
    assert torch.version.cuda is None
    assert torch.cuda.get_device_capability() == (9, 5)
    stated = torch.cuda.get_device_properties("cuda")
    assert stated.gcnArchName.startswith("gfx950")
    assert stated.multi_processor_count == 256


@in_world()
def test_triton_testing_helpers_run(world: World) -> None:
    assert triton.testing.get_dram_gbps() > 1000
    assert triton.testing.get_max_tensorcore_tflops(torch.float16, 2_100_000) > 0
    assert triton.runtime.driver.active.launcher_cls(None, None)() is None


# ----- what a kernel's launch sees


@triton.jit
def _copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


class _Compiled:
    """Stands in for a compiled kernel, and records what it was compiled from."""

    function = 1
    packed_metadata = None

    def __init__(self, seen: list[Any], src: Any) -> None:
        seen.append(src)

    def _init_handles(self) -> None:
        pass

    def result(self) -> Any:
        return self

    def launch_metadata(self, *args: Any) -> None:
        pass

    def run(self, *args: Any) -> None:
        pass


def _sources(launch: Callable[[], Any]) -> list[Any]:
    """What the launches in `launch` hand to the compiler."""
    seen: list[Any] = []
    for module in (triton.compiler.compiler, triton.compiler, triton):
        module.compile = lambda src, **kwargs: _Compiled(seen, src)
    launch()
    return seen


def _attributes(source: Any, position: int) -> dict[str, int]:
    return dict(source.attrs.get((position,), ()))


@in_world()
def test_launch_specialises_as_on_the_gpu(world: World) -> None:
    x = torch.empty(1024, device="cuda", dtype=torch.float16)
    large = torch.empty(1 << 30, device="cuda", dtype=torch.float16)  # 2 GiB: one byte too many
    fitting = torch.empty((1 << 30) - 1, device="cuda", dtype=torch.float16)

    def launch() -> None:
        _copy[(8,)](x, x[1:], 1000, BLOCK=128)
        _copy[(8,)](large, large[8:16], 1001, BLOCK=128)
        _copy[(8,)](fitting, x.view(32, 32).t(), 16, BLOCK=128)

    first, second, third = _sources(launch)
    both = {"tt.divisibility": 16, "tt.pointer_range": 32}
    assert first.signature["x_ptr"] == "*fp16"
    assert _attributes(first, 0) == both
    assert _attributes(first, 1) == {"tt.pointer_range": 32}  # two bytes off
    assert _attributes(second, 0) == _attributes(second, 1) == {"tt.divisibility": 16}
    assert _attributes(second, 2) == {}
    assert _attributes(third, 0) == _attributes(third, 1) == both
    assert _attributes(third, 2) == {"tt.divisibility": 16}


@in_world()
def test_types_reach_the_signature(world: World) -> None:
    expected = {
        "float8_e4m3fnuz": "*fp8e4b8",
        "float8_e5m2fnuz": "*fp8e5b16",
        "float8_e4m3fn": "*fp8e4nv",
        "float8_e5m2": "*fp8e5",
        "bfloat16": "*bf16",
        "int8": "*i8",
        "uint8": "*u8",
        "bool": "*u1",
        "int64": "*i64",
        "float64": "*fp64",
    }
    tensors = [torch.zeros(64, device="cuda").to(getattr(torch, name)) for name in expected]
    sources = _sources(lambda: [_copy[(1,)](t, t, 64, BLOCK=64) for t in tensors])
    assert [s.signature["x_ptr"] for s in sources] == list(expected.values())


@in_world()
def test_tensors_of_call_expressions(world: World) -> None:
    t = world.tensor(4, 8, dtype="bf16", strides=(16, 1), grad=True)
    assert t.is_cuda
    assert t.requires_grad
    assert (t.dtype, t.stride(), tuple(t.shape)) == (torch.bfloat16, (16, 1), (4, 8))
    assert world.tensor(3, dtype="fp8e4b8").dtype == torch.float8_e4m3fnuz
    assert world.tensor(3, dtype=torch.int32).tolist() == [0, 0, 0]
    assert world.tensor(1 << 20, 1 << 20).untyped_storage().size() == 1 << 41
    with pytest.raises(ValueError, match="fp17"):
        world.tensor(1, dtype="fp17")


# ----- tensors


@in_world()
def test_where_tensors_are(world: World) -> None:
    x = torch.randn(128, 64, device="cuda")
    assert x.device == torch.device("cuda:0")
    assert x.is_cuda
    assert x.get_device() == 0
    assert isinstance(x, torch.Tensor)
    assert x.data_ptr() % 256 == 0
    assert x[1:].data_ptr() - x.data_ptr() == 64 * 4
    assert torch.empty(8, device="cuda").data_ptr() != x.data_ptr()
    for same in (x.cuda(), x.to("cuda"), x.to(0), x.to(x.dtype), x.contiguous(), x.to(x)):
        assert same is x
    assert x.add_(1) is x
    assert torch.add(x, x, out=x) is x
    assert x.view(-1).untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    host = x.cpu()
    assert type(host) is torch.Tensor
    assert not host.is_cuda
    assert host.to(x).is_cuda
    assert host.type_as(x).is_cuda
    assert x.half().dtype == torch.float16
    assert x.type() == "torch.cuda.FloatTensor"
    assert isinstance(x, torch.cuda.FloatTensor)
    assert not torch.zeros_like(x, device="cpu").is_cuda
    assert F.one_hot(torch.tensor([0, 1], device="cuda"), 3).is_cuda
    assert F.rms_norm(torch.randn(64, 4096, device="cuda"), (4096,)).is_cuda


@in_world()
def test_ways_to_the_device(world: World) -> None:
    x = torch.ones(2, device="cuda")
    ways = {
        "ordinal": lambda: torch.zeros(2, device=0),
        "hip": lambda: torch.randn(2, device="hip"),
        "tensor": lambda: torch.tensor([1, 2], device="cuda"),
        "as_tensor": lambda: torch.as_tensor(np.ones(2), device="cuda"),
        "numpy": lambda: torch.from_numpy(np.ones(2)).cuda(non_blocking=True),
        "pinned": lambda: torch.empty(2, pin_memory=True).pin_memory().to("cuda", torch.float16),
        "keywords": lambda: torch.ones(2).to(device="cuda", dtype=torch.bfloat16),
        "type": lambda: torch.ones(2).type(torch.cuda.HalfTensor),
        "legacy": lambda: torch.cuda.FloatTensor([1.0, 2.0]),
        "new_tensor": lambda: x.new_tensor([1]),
        "new_zeros": lambda: x.new_zeros(3),
        "like": lambda: torch.randn_like(x),
        "like elsewhere": lambda: torch.zeros_like(torch.ones(2), device="cuda"),
        "indices": lambda: torch.tril_indices(3, 3, device="cuda"),
        "normal": lambda: torch.normal(0, 1, (2,), device="cuda"),
        "generator": lambda: torch.randn(
            2, device="cuda", generator=torch.Generator("cuda").manual_seed(1)
        ),
        "complex": lambda: torch.fft.fft(torch.randn(8, device="cuda")).abs(),
        "script's thread": lambda: _in_thread(lambda: torch.ones(2, device="cuda")),
    }
    assert {way for way, make in ways.items() if not make().is_cuda} == set()


def _in_thread(make: Callable[[], Any]) -> Any:
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(make()))
    thread.start()
    thread.join()
    return made[0]


@in_world()
def test_default_device(world: World) -> None:
    torch.set_default_device("cuda")
    made = [torch.randn(3), torch.tensor(1.0), nn.Linear(2, 2).weight]
    host = torch.zeros(2, device="cpu")
    torch.set_default_device(None)
    with torch.device("cuda"):
        made += [torch.arange(3), torch.tensor([1]), nn.Linear(2, 2).bias]
    assert all(t.is_cuda for t in made)
    assert not host.is_cuda
    assert not torch.ones(1).is_cuda


@in_world()
def test_devices_of_ordinals(world: World) -> None:
    gpu = torch.device(0)
    assert gpu == torch.device("cuda:0") == torch.device("cuda", 0)
    assert gpu == torch.device(type="cuda", index=0) == torch.device(device=0)
    assert isinstance(gpu, torch.device)
    assert not isinstance("cuda", torch.device)
    assert type(gpu) == torch.device  # noqa: E721  (equal, if not the same)
    assert type(gpu) in {torch.device: 1}
    assert pickle.loads(pickle.dumps(gpu)) == copy.deepcopy(gpu) == gpu
    with torch.device(0):
        assert torch.ones(2).is_cuda

    @torch.library.custom_op("kinspect_world::ones", mutates_args=())
    def ones(n: int, device: torch.device) -> torch.Tensor:
        return torch.ones(n, device=device)

    assert ones(2, gpu).is_cuda


@in_world()
def test_small_tensors_have_true_contents(world: World) -> None:
    lengths = torch.tensor([3, 5, 2], device="cuda")
    assert torch.cumsum(lengths, 0).tolist() == [3, 8, 10]
    assert lengths.max().item() == 5
    assert [int(n) for n in lengths] == [3, 5, 2]
    assert list(range(lengths[2])) == [0, 1]
    assert torch.tensor([0, 1, 1], device="cuda").nonzero().tolist() == [[1], [2]]
    assert torch.repeat_interleave(lengths, lengths).tolist() == [3] * 3 + [5] * 5 + [2] * 2
    assert torch.unique(torch.tensor([2, 1, 2], device="cuda")).tolist() == [1, 2]
    assert lengths[lengths > 2].tolist() == [3, 5]
    assert sorted(torch.randperm(8, device="cuda").tolist()) == list(range(8))
    grid = torch.zeros(4, 4, device="cuda")
    grid[1] = 2.0
    grid.view(-1)[0] = 1
    grid[torch.tensor([3], device="cuda")] = 7.0
    assert grid.sum(1).tolist() == [1, 8, 0, 28]
    assert f"{grid.sum():.1f}" == "37.0"
    assert "cuda:0" in repr(grid)


@in_world()
def test_contexts_are_decorators_too(world: World) -> None:
    for context in (torch.inference_mode(False), torch.inference_mode(), torch.inference_mode):
        assert context(lambda: 3)() == 3
    with torch.inference_mode(False):
        assert torch.is_grad_enabled()


@in_world(arch="gfx950")
def test_the_management_library_tells_of_the_gpu(world: World) -> None:
    smi: Any = importlib.import_module("amdsmi")
    smi.amdsmi_init()
    (gpu,) = smi.amdsmi_get_processor_handles()
    assert smi.amdsmi_get_gpu_asic_info(gpu)["target_graphics_version"] == "gfx950"
    assert smi.amdsmi_get_gpu_asic_info(gpu)["device_id"] == "N/A"  # not looked up
    assert smi.amdsmi_get_gpu_memory_total(gpu, smi.AmdSmiMemoryType.VRAM) == 288 << 30
    with pytest.raises(smi.AmdSmiException, match="amdsmi_get_fan: AMDSMI_STATUS_NOT_SUPPORTED"):
        smi.amdsmi_get_fan(gpu)
    assert smi.AmdSmiInitFlags.INIT_AMD_GPUS is not None
    assert issubclass(smi.AmdSmiRetryException, smi.AmdSmiException)


@in_world()
def test_what_is_overwritten_in_parts_is_known_once_all_of_it_is(world: World) -> None:
    columns = torch.empty(4, 4, device="cuda")
    columns[:, 1:].zero_()
    assert columns._memory.unknown
    columns[:, 0] = 1
    assert not columns._memory.unknown
    rows = torch.empty(4, 4, device="cuda")
    for row in (0, 0, slice(1, 3)):
        rows[row] = 2
        assert rows._memory.unknown
    rows[3] = 3
    assert not rows._memory.unknown
    world.launched([rows], [True])
    rows[3] = 3
    assert rows._memory.unknown


@in_world()
def test_what_is_written_through_data_autograd_does_not_see(world: World) -> None:
    x = torch.ones(8, device="cuda", requires_grad=True)
    y = (x * x).sum()
    x.data.add_(1)
    assert x.tolist() == [2.0] * 8
    assert x.data_ptr() == x.data.data_ptr()
    y.backward()
    assert x.grad is not None
    assert not x.data.requires_grad


@in_world()
def test_types_that_a_meta_kernel_refuses(world: World) -> None:
    mask = torch.ones(1 << 12, 1 << 12, dtype=torch.bool, device="cuda")
    packed = mask << torch.arange(1 << 12, device="cuda")
    assert (packed.shape, packed.dtype) == ((1 << 12, 1 << 12), torch.int64)
    with pytest.raises(RuntimeError, match="lshift"):
        mask << torch.arange(5, device="cuda")


@in_world()
def test_terabytes_cost_nothing(world: World) -> None:
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    big = torch.empty(1 << 40, dtype=torch.float16, device="cuda")
    assert big.untyped_storage().size() == big.ptr_range() == 1 << 41
    assert math.isfinite((big + 1).sum().item())
    assert big.cpu().numpy().shape == (1 << 40,)
    assert len(torch.ones(1 << 14, 1 << 14, device="cuda").tolist()[5]) == 1 << 14
    assert "cuda:0" in str(big)
    assert torch.randn(1 << 36).cuda().is_cuda  # made in host memory first
    assert (torch.ones(100_000, 1, device="cuda") * torch.ones(100_000, device="cuda")).dim() == 2
    assert big[: 1 << 30].nonzero().shape == (1 << 30, 1)
    assert big[big > 0].shape == big.shape
    assert (
        torch.randn(8192, 8192, device="cuda") @ big[: 1 << 26].view(8192, 8192).float()
    ).is_cuda
    assert torch.unique(big[: 1 << 28], return_counts=True)[1].shape == (1 << 28,)
    index = torch.randint(0, 9, (5,), device="cuda")
    assert big.view(-1, 1024)[index].shape == (5, 1024)
    sunk = io.BytesIO()
    torch.save({"big": big}, sunk)
    assert sunk.tell() < 1 << 16
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200 << 10, f"{grown} KiB more"


@in_world()
def test_unknown_results_agree_with_references(world: World) -> None:
    for n in (1 << 6, 1 << 24):
        reference = torch.randn(n, device="cuda")
        result = torch.empty_like(reference)  # what a kernel would have filled
        difference = (result - reference).abs()
        assert difference.max().item() < 1e-3
        assert difference.max() < 1e-3
        assert not difference.max() > 1e-3
        assert not bool(torch.isnan(result).any())
        assert bool((result == reference).all())
        assert (result != reference).sum().item() == 0
    result.copy_(torch.ones(1 << 24, device="cuda"))
    written = torch.empty(4, device="cuda").copy_(torch.arange(4, device="cuda"))
    assert written.tolist() == [0, 1, 2, 3]
    assert written.max().item() == 3
    assert int(torch.tensor(float("nan"), device="cuda").item()) == 0
    assert not torch.allclose(written, written + 1)  # known: compared
    torch.testing.assert_close(written, written + 1)
    np.testing.assert_allclose([1], [2])
    with pytest.raises(RuntimeError, match="must match"):
        written + torch.ones(3, device="cuda")


@in_world()
def test_shapes_changed_in_place(world: World) -> None:
    for n in (4, 1 << 12):
        t = torch.empty(n, 2 * n, device="cuda")
        t.transpose_(0, 1)
        assert (tuple(t.shape), t.stride()) == ((2 * n, n), (1, 2 * n))
        assert (t + 1).shape == (2 * n, n)
        t.unsqueeze_(0)
        assert t.shape == (1, 2 * n, n)
    t = torch.empty(4, device="cuda")
    t.resize_(10)
    assert (t.shape, t.untyped_storage().size()) == ((10,), 40)
    parameter = nn.Parameter(torch.ones(3, device="cuda"))
    parameter.data = torch.zeros(5, device="cuda", dtype=torch.float16)
    assert (parameter.shape, parameter.dtype) == ((5,), torch.float16)
    host = nn.Parameter(torch.ones(3))
    host.data = torch.zeros(5, device="cuda")
    assert isinstance(host, nn.Parameter)
    assert host.is_cuda
    assert (host + 1).tolist() == [1] * 5


@in_world()
def test_low_precision_types(world: World) -> None:
    for dtype in (
        *(torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz),
        *(torch.bfloat16, torch.float16, torch.complex64, torch.uint8),
    ):
        for n in (64, 2048):
            a = torch.randn(n, n, device="cuda").to(dtype)
            assert a.is_cuda
            assert a.dtype == dtype
            derived = [a.t().contiguous(), a.clone(), torch.cat([a, a]), a.view(-1), a[1:]]
            assert all(t.is_cuda and t.dtype == dtype for t in derived)
            assert a.cpu().float().numpy().shape == (n, n)
            assert repr(a)
    conjugate = torch.tensor([1 + 2j], device="cuda").conj()
    assert torch.view_as_real(conjugate.resolve_conj()).tolist() == [[1, -2]]
    scale = torch.ones((), device="cuda")
    for n in (64, 2048):
        a = torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn)
        product = torch._scaled_mm(a, a.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)
        assert product.shape == (n, n)


# ----- autograd, modules, libraries


class _Kernel(torch.autograd.Function):
    """As scripts write them around Triton kernels."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return torch.empty_like(a)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        assert a.is_cuda
        assert grad.is_cuda
        assert grad.data_ptr() % 16 == 0
        return torch.empty_like(a), torch.empty_like(b)


@in_world()
def test_autograd_through_functions(world: World) -> None:
    for n in (64, 1 << 22):
        a, b = (torch.randn(n, device="cuda", requires_grad=True) for _ in range(2))
        _Kernel.apply(a, b).backward(torch.randn(n, device="cuda"))
        assert a.grad.is_cuda
        assert b.grad.shape == (n,)
        grads = torch.autograd.grad(_Kernel.apply(a * 2, b).sum(), [a, b])
        assert all(g.is_cuda for g in grads)
    x = torch.full((3,), 2.0, device="cuda", requires_grad=True)
    (x**3).sum().backward()
    assert x.grad.tolist() == [12.0] * 3
    with torch.inference_mode():
        y = x * 2
    assert y.is_cuda


@in_world()
def test_attention_and_losses(world: World) -> None:
    for n in (64, 4096):
        q, k, v = (
            torch.randn(1, 2, n, 64, device="cuda", dtype=torch.float16, requires_grad=True)
            for _ in range(3)
        )
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION):
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out.backward(torch.randn_like(out))
        assert q.grad.is_cuda
        logits = torch.randn(n, 1000, device="cuda", requires_grad=True)
        F.cross_entropy(logits, torch.randint(0, 1000, (n,), device="cuda")).backward()
        assert logits.grad.shape == logits.shape


@in_world()
def test_modules_move_train_and_copy(world: World) -> None:
    for n in (64, 4096):
        model = nn.Sequential(nn.Linear(n, n), nn.LayerNorm(n)).to("cuda")
        assert all(isinstance(p, nn.Parameter) and p.is_cuda for p in model.parameters())
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.randn(4, n, device="cuda")).sum().backward()
        assert model[0].weight.grad.is_cuda
        optimizer.step()
        optimizer.zero_grad()
        model.half()
        assert model[0].weight.dtype == torch.float16
        assert model[0].weight.untyped_storage().size() == n * n * 2
        assert (model[0].weight + 1).dtype == torch.float16
        twin = copy.deepcopy(model)
        assert isinstance(twin[0].weight, nn.Parameter)
        twin.load_state_dict(model.state_dict())
        sunk = io.BytesIO()
        torch.save(model.state_dict(), sunk)
        sunk.seek(0)
        assert torch.load(sunk, map_location="cuda", weights_only=True)["0.weight"].is_cuda
        sunk.seek(0)
        assert torch.load(sunk)["0.weight"].is_cuda
        assert not model.cpu()[0].weight.is_cuda
        assert model.to(0)[0].weight.is_cuda
    assert pickle.loads(pickle.dumps(torch.ones(2, device="cuda"))).tolist() == [1, 1]


@in_world()
def test_autocast_reaches_the_device(world: World) -> None:
    model, x = nn.Linear(8, 8).cuda(), torch.randn(2, 8, device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        assert model(x).dtype == torch.float16
        assert torch.is_autocast_enabled("cuda")
        assert torch.get_autocast_dtype("cuda") == torch.float16
        with torch.autocast("cuda", enabled=False):
            assert model(x).dtype == torch.float32
    with torch.amp.autocast("cuda", dtype=torch.bfloat16):
        assert model(x).dtype == torch.bfloat16
    assert model(x).dtype == torch.float32
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cuda")
    scaler.scale(model(x).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


@in_world()
def test_custom_operators_see_device_tensors(world: World) -> None:
    seen = []

    @torch.library.custom_op("kinspect_world::double", mutates_args=())
    def double(a: torch.Tensor) -> torch.Tensor:
        seen.append(a.is_cuda)
        return a * 2

    double.register_autograd(
        lambda ctx, grad: grad * 2, setup_context=lambda ctx, inputs, output: None
    )

    @torch.library.custom_op("kinspect_world::fill", mutates_args={"a"}, device_types="cuda")
    def fill(a: torch.Tensor) -> None:
        seen.append(a.is_cuda)
        a.fill_(3)

    x = torch.ones(2, device="cuda", requires_grad=True)
    double(x).sum().backward()
    assert x.grad.tolist() == [2, 2]
    y = torch.zeros(2, device="cuda")
    fill(y)
    assert y.tolist() == [3, 3]
    library = torch.library.Library("kinspect_world2", "DEF")
    library.define("inc(Tensor a) -> Tensor")
    library.impl("inc", lambda a: seen.append(a.is_cuda) or a + 1, "CUDA")
    assert torch.ops.kinspect_world2.inc(y).tolist() == [4, 4]
    assert seen == [True] * 3


@in_world()
def test_checks_of_operators_call_them(world: World) -> None:
    seen = []

    @torch.library.custom_op("kinspect_world::triple", mutates_args=())
    def triple(a: torch.Tensor, times: int) -> torch.Tensor:
        seen.append(a.is_cuda)
        return a * times

    triple.register_autograd(
        lambda ctx, grad: (triple(grad, 3), None),
        setup_context=lambda ctx, inputs, output: None,
    )
    x = torch.ones(2, device="cuda", requires_grad=True)
    found = torch.library.opcheck(triple, (x, 3))
    assert found["test_aot_dispatch_dynamic"] == "SUCCESS"
    assert torch.library.opcheck(triple, (x,), {"times": 3}, test_utils="test_schema") == {
        "test_schema": "SUCCESS"
    }
    assert torch.library.opcheck(triple, (torch.ones(2, device="cuda"), 3))
    assert seen == [True] * 5
    assert x.grad is None


@in_world()
def test_operators_that_call_functions(world: World) -> None:
    """A launch of wrap_triton outside of an operator, branches, attention with a score function."""
    from torch.nn.attention.flex_attention import flex_attention

    x = torch.ones(1024, device="cuda", dtype=torch.float16)

    def launch() -> None:
        torch.library.wrap_triton(_copy)[(8,)](x, x[1:], 1000, BLOCK=128)

    (source,) = _sources(launch)
    assert source.signature["x_ptr"] == "*fp16"
    assert _attributes(source, 1) == {"tt.pointer_range": 32}
    low, high = (
        torch.cond(of.sum() > 0, lambda a: a + 1, lambda a: a - 1, (of,))
        for of in (torch.zeros(2, device="cuda"), torch.ones(2, device="cuda"))
    )
    assert (low.tolist(), high.tolist()) == ([-1, -1], [2, 2])
    query = torch.zeros(1, 2, 16, 8, device="cuda")
    ones = torch.ones_like(query)
    assert flex_attention(query, query, ones).flatten().tolist() == [1] * 256


@in_world()
def test_operators_that_a_library_overrides(world: World) -> None:
    seen = []
    library = torch.library.Library("aten", "IMPL")

    def silu(a):
        seen.append((a.is_cuda, torch.empty_like(a).is_cuda))
        return a * 5

    library.impl("silu", silu, "CUDA")
    assert F.silu(torch.ones(2, device="cuda")).tolist() == [5, 5]
    assert F.silu(torch.zeros(2)).tolist() == [0, 0]
    library._destroy()
    assert F.silu(torch.zeros(2, device="cuda")).tolist() == [0, 0]
    assert seen == [(True, True)]


@in_world()
def test_meta_tensors_are_nowhere(world: World) -> None:
    x, large = torch.ones(3, device="cuda"), torch.empty(1 << 20, device="meta")
    made = [large, large + 1, x.to("meta"), torch.zeros_like(x, device="meta")]
    made += [x.new_empty(4, device="meta"), torch.ones(1 << 20).to("meta")]
    assert {(type(one), one.device.type) for one in made} == {(torch.Tensor, "meta")}
    with torch.device("meta"):
        layer = nn.Linear(1024, 1024)
    assert layer.to_empty(device="cuda").weight.is_cuda


@in_world()
def test_a_parameters_class_makes_parameters(world: World) -> None:
    weight = nn.Linear(4, 4).cuda().weight
    other = type(weight)(weight.cpu(), requires_grad=False, **vars(weight))
    assert isinstance(other, nn.Parameter)
    assert not other.requires_grad
    assert type(weight)(weight.to("meta"), requires_grad=True).device.type == "meta"
    assert type(weight)(2, 3).shape == (2, 3)
    assert not isinstance(type(weight)([1.0]), nn.Parameter)


@in_world()
def test_torch_features_around_kernels(world: World) -> None:
    checkpoint = importlib.import_module("torch.utils.checkpoint").checkpoint
    x = torch.randn(4, 8, device="cuda", requires_grad=True)
    checkpoint(nn.Linear(8, 8).cuda(), x, use_reentrant=False).sum().backward()
    assert x.grad.is_cuda

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
    graph.replay()
    stream, event = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
    event.record()
    with torch.cuda.stream(stream), torch.cuda.device(x.device):
        torch.cuda.current_stream().wait_stream(stream)
    assert event.elapsed_time(event) > 0
    assert torch.cuda.memory_stats()["allocated_bytes.all.peak"] == 0
    assert torch.accelerator.current_accelerator().type == "cuda"
    assert torch.get_device_module() is torch.cuda
    assert torch._C._cuda_getCurrentRawStream(0) == 0
    buffer = torch._C._dynamo.guards._empty_strided_cuda((2, 3), (3, 1), torch.float16)
    assert (buffer.is_cuda, buffer.shape, buffer.dtype) == (True, (2, 3), torch.float16)
    assert y.is_cuda
    inside = importlib.import_module("torch._dynamo.exc")  # the stand-in is a package
    assert issubclass(inside.TorchDynamoException, Exception)
    symbolic = importlib.import_module("torch.fx.experimental.symbolic_shapes")
    assert symbolic.guard_or_false(True) is True
    assert symbolic.sym_eq([1, (2, 3)], [1, (2, 3)]) is True
    assert symbolic.ShapeEnv().create_unbacked_symint() is not None
    dynamo = importlib.import_module("torch._dynamo")
    assert dynamo.config.cache_size_limit > 0


@in_world()
def test_plain_operators_import_nothing_slow(world: World) -> None:
    before = set(sys.modules)  # other tests in this process may have loaded them
    x = torch.randn(64, 64, device="cuda", dtype=torch.float16)
    y = (x @ x).float().softmax(-1) + torch.arange(64, device="cuda")
    large = torch.zeros(8192, 8192, device="cuda")
    assert (large @ large).sum(0).shape == (8192,)
    assert y[:, 3:].contiguous().stride() == (61, 1)
    for name in ("sympy", "torch._dynamo.eval_frame"):
        assert name in before or name not in sys.modules, name


@in_world()
def test_distributed_is_one_process(world: World) -> None:
    dist = torch.distributed
    dist.init_process_group("nccl")
    t = torch.ones(4, device="cuda")
    dist.all_reduce(t, async_op=True).wait()
    dist.all_gather([torch.empty_like(t)], t)
    dist.broadcast(t, 0, group=dist.new_group([0]))
    dist.barrier()
    assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
    assert t.is_cuda
    dist.destroy_process_group()


@in_world()
def test_distributed_groups_are_what_was_asked_for(world: World) -> None:
    dist = torch.distributed
    mesh_module = importlib.import_module("torch.distributed.device_mesh")
    dist.init_process_group("cpu:gloo,cuda:nccl", init_method="tcp://h:1?rank=1&world_size=4")
    assert mesh_module.init_process_group is dist.init_process_group
    assert (dist.get_rank(), dist.get_world_size()) == (1, 4)
    assert dist.get_backend() == "cpu:gloo,cuda:nccl"
    options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
    pair = dist.new_group([0, 1], backend="nccl", pg_options=options)
    assert (dist.get_backend(pair), pair.size()) == ("nccl", 2)
    assert dist.new_group([2, 3], backend="nccl") == dist.GroupMember.NON_GROUP_MEMBER
    half = dist.split_group(None, [[0, 3], [1, 2]])
    assert dist.get_process_group_ranks(half) == [1, 2]
    assert torch.cuda.nccl.version() >= (2, 20)
    (said,) = world.notes
    assert said.startswith("of 4 processes of torch.distributed this one alone runs")


@in_world()
def test_distributed_collectives(world: World) -> None:
    dist = torch.distributed
    dist.init_process_group("nccl", rank=1, world_size=4)
    for n in (4, 1 << 20):
        x, small = torch.ones(n, device="cuda"), torch.empty(n // 4, device="cuda")
        gathered = torch.empty(4 * n, device="cuda")
        dist.all_gather_into_tensor(gathered, x)
        dist.reduce_scatter_tensor(small, x)
        dist.all_to_all_single(torch.empty_like(x), x)
        dist.all_to_all([torch.empty_like(x) for _ in range(4)], [x] * 4)
        dist.broadcast(x, src=0)
        assert gathered.is_cuda
        work = dist.all_reduce(x, op=dist.ReduceOp.AVG, async_op=True)
        assert work.wait()
        for request in dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, x, 0), dist.P2POp(dist.irecv, small, 0)]
        ):
            request.wait()
        functional = importlib.import_module("torch.distributed._functional_collectives")
        summed = functional.reduce_scatter_tensor(x, "sum", 0, dist.group.WORLD)
        assert summed.shape == (n // 4,)
    dist.barrier(device_ids=[0])
    held = [{"block": 64}]
    dist.broadcast_object_list(held, src=0)
    dist.broadcast_object_list(held, src=1)
    assert held == [{"block": 64}]
    part = [None]
    dist.scatter_object_list(part, [1, 2, 3, 4], src=1)
    assert part == [2]
    everyones = [None] * 4
    dist.all_gather_object(everyones, {"of": 1})
    assert everyones == [{"of": 1}] * 4


@in_world()
def test_distributed_data_parallel(world: World) -> None:
    dist = torch.distributed
    hooks = importlib.import_module("torch.distributed.algorithms.ddp_comm_hooks.default_hooks")
    dist.init_process_group("nccl", device_id=torch.device("cuda:0"), world_size=2, rank=0)
    for n, hook in ((64, None), (4096, hooks.fp16_compress_hook)):
        model = nn.Sequential(nn.Linear(n, n), nn.BatchNorm1d(n)).cuda()
        model = nn.parallel.DistributedDataParallel(model, device_ids=[0])
        if hook is not None:
            model.register_comm_hook(None, hook)
        for _ in range(2):
            model(torch.randn(4, n, device="cuda")).sum().backward()
        assert model.module[0].weight.grad.is_cuda
        assert model.module[0].weight.grad.shape == (n, n)
    done = dist.all_reduce(torch.ones(4, device="cuda"), async_op=True).get_future()
    assert done.then(lambda of: of.value()[0].is_cuda).wait()


@in_world()
def test_fully_sharded_models(world: World) -> None:
    sharding = importlib.import_module("torch.distributed.fsdp")
    mesh = torch.distributed.init_device_mesh("cuda", (1,))
    x = torch.randn(4, 64, device="cuda")
    policy = sharding.MixedPrecision(param_dtype=torch.bfloat16)
    seen = []
    older = sharding.FullyShardedDataParallel(
        nn.Sequential(nn.Linear(64, 64), nn.ReLU()).cuda(), device_id=0, mixed_precision=policy
    )
    older.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    optimizer = torch.optim.AdamW(older.parameters())
    for _ in range(2):
        older(x).float().sum().backward()
        older.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
    assert seen == [torch.bfloat16] * 2
    newer = nn.Linear(64, 64).cuda()
    sharding.fully_shard(newer, mesh=mesh)
    newer(x).sum().backward()
    assert newer.weight.grad.to_local().is_cuda
    storage = x.storage()
    assert (storage.size(), storage.nbytes(), storage.element_size()) == (256, 1024, 4)


class _Scaled(torch.Tensor):
    """As quantized tensors of libraries: wraps two others, and says that it is where they are."""

    @staticmethod
    def __new__(cls, inner, scale):
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, device=inner.device
        )
        made.inner, made.scale = inner, scale
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = [a.inner * a.scale if isinstance(a, _Scaled) else a for a in args]
        return func(*plain, **(kwargs or {}))


@in_world()
def test_tensors_that_wrap_device_tensors(world: World) -> None:
    wrapped = _Scaled(torch.ones(8, 8, device="cuda"), torch.ones((), device="cuda"))
    assert (wrapped.device, wrapped.is_cuda, wrapped.is_cpu) == (
        torch.device("cuda:0"),
        True,
        False,
    )
    assert wrapped.get_device() == 0
    x = torch.randn(2, 8, device="cuda", requires_grad=True)
    F.linear(x, wrapped.requires_grad_()).sum().backward()
    assert x.grad.is_cuda
    host = _Scaled(torch.ones(2), torch.ones(()))
    assert (host.device.type, host.is_cuda, host.get_device()) == ("cpu", False, -1)


@in_world()
def test_distributed_tensors(world: World) -> None:
    dist = torch.distributed
    dist.init_process_group("nccl", rank=0, world_size=4)
    mesh = dist.init_device_mesh("cuda", (2, 2), mesh_dim_names=("dp", "tp"))
    tensors = importlib.import_module("torch.distributed.tensor")
    parallel = importlib.import_module("torch.distributed.tensor.parallel")
    whole = torch.randn(64, 128, device="cuda", requires_grad=True)
    sharded = tensors.distribute_tensor(whole, mesh, [tensors.Shard(0), tensors.Shard(1)])
    assert (sharded.device, sharded.is_cuda) == (torch.device("cuda:0"), True)
    assert sharded.to_local().shape == (32, 64)
    assert sharded.full_tensor().is_cuda
    (sharded @ sharded.t()).sum().backward()
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).cuda()
    plan = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
    model = parallel.parallelize_module(model, mesh["tp"], plan)
    model(torch.randn(8, 64, device="cuda")).sum().backward()
    assert model[0].weight.grad.to_local().shape == (128, 64)


@in_world()
def test_symmetric_memory(world: World) -> None:
    dist = torch.distributed
    dist.init_process_group("nccl", rank=1, world_size=4)
    symmetric = importlib.import_module("torch.distributed._symmetric_memory")
    group = dist.group.WORLD
    with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
        tensor = symmetric.empty(64, dtype=torch.bfloat16, device="cuda")
    assert symmetric.is_symm_mem_tensor(tensor)
    assert not symmetric.is_symm_mem_tensor(torch.ones(1, device="cuda"))
    handle = symmetric.rendezvous(tensor, group)
    assert (handle.rank, handle.world_size, handle.buffer_size) == (1, 4, 128)
    assert handle.buffer_ptrs[1] == tensor.data_ptr()
    assert len(set(handle.buffer_ptrs)) == 4
    assert handle.buffer_ptrs_dev % 16 == handle.signal_pad_ptrs_dev % 16 == 0
    own = handle.get_buffer(1, (8, 4), torch.float32)
    own.fill_(0)
    assert (tensor.sum().item(), own.data_ptr()) == (0, tensor.data_ptr())
    assert handle.get_buffer(2, (8,), torch.bfloat16, 8).data_ptr() == handle.buffer_ptrs[2] + 16
    assert handle.get_signal_pad(0).dtype == torch.int32
    handle.barrier()
    part = symmetric.rendezvous(tensor[16:], group.group_name)
    assert part.get_remote_tensor(0, (4,), torch.bfloat16).data_ptr() == part.buffer_ptrs[0] + 32
    assert symmetric.get_symm_mem_workspace(group.group_name, 1 << 12).buffer_size == 1 << 12
    large = symmetric.empty(1 << 28, dtype=torch.float16, device="cuda:0")
    remote = symmetric.rendezvous(large, group).get_buffer(3, (1 << 10, 1 << 10), torch.float32)
    assert remote.shape == (1 << 10, 1 << 10)
    reduced = torch.ops.symm_mem.one_shot_all_reduce(tensor, "sum", group.group_name)
    assert reduced.is_cuda
    assert torch.ops.symm_mem.two_shot_all_reduce_(tensor, "sum", group.group_name) is tensor


@in_world()
def test_suspended_is_plain_torch(world: World) -> None:
    with world.suspended():
        assert torch.ones(2).sum().item() == 2
        with pytest.raises((RuntimeError, AssertionError, NotImplementedError)):
            torch.ones(2, device="cuda").add_(1).cpu().numpy().tolist()
    assert torch.ones(2, device="cuda").sum().item() == 2


class _Bound:
    """As Helion's kernel that is bound to arguments: it traces with torch's fake tensors."""

    def __init__(self, argument: Any) -> None:
        self.kernel = types.SimpleNamespace(name="add", configs=[], normalize_args=lambda *a: a)
        self.config_spec = types.SimpleNamespace(default_config=lambda: self.listed(0))
        self.launched: list[int] = []
        fake = importlib.import_module("torch._subclasses.fake_tensor").FakeTensorMode()
        proxies = importlib.import_module("torch.fx.experimental.proxy_tensor")
        with fake:
            traced = fake.from_tensor(argument)
            self.graph = proxies.make_fx(lambda a: a.new_zeros(3) + a.sum())(traced)
        self.device = traced.device

    def to_code(self) -> str:
        return "value = 7"

    def autotune(self, args: Any) -> Any:
        raise AssertionError("it would time them")

    def compile_config(self, config: Any) -> Callable[..., Any]:
        return lambda *args: self.launched.append(config.config["block"])

    def set_config(self, config: Any) -> None:
        self.chosen = config

    @staticmethod
    def listed(block: int) -> Any:
        return types.SimpleNamespace(config={"block": block})


@in_world()
def test_helion_traces_and_chooses(world: World) -> None:
    cache = importlib.import_module("torch._inductor.codecache").PyCodeCache
    module = types.SimpleNamespace(BoundKernel=_Bound, PyCodeCache=cache)
    kept = Path(tempfile.mkdtemp()) / "kept.py"
    world.generate(lambda graph: None, 2, lambda name, text: str(_written(kept, text)))
    world.import_patches()["helion.runtime.kernel"](module)
    x = torch.ones(4, device="cuda")
    bound = _Bound(x)
    assert bound.device == torch.device("cuda:0")
    called = [node.target for node in bound.graph.graph.nodes if node.op == "call_function"]
    assert [str(target) for target in called] == [
        *("aten.new_zeros.default", "aten.sum.default", "aten.add.Tensor")
    ]
    assert (x + 1).tolist() == [2] * 4  # the world goes on
    bound.autotune((x,))
    assert (bound.chosen.config["block"], bound.launched) == (0, [])
    bound.kernel.configs = [bound.listed(block) for block in (16, 32, 64)]
    bound.autotune((x,))
    assert (bound.chosen.config["block"], len(bound.launched)) == (16, 1)
    assert module.PyCodeCache.load(bound.to_code()).value == 7
    assert kept.read_text() == "value = 7"
    assert world.notes == [
        "Helion's autotuner is not run for add: its default is compiled",
        "2 of the 3 configurations of add are launched",
    ]


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


# ----- benchmarks, tools, stubs


@in_world(max_values=3)
def test_benchmarks_run_once(world: World) -> None:
    calls = []
    bench = triton.testing.do_bench
    assert bench(lambda: calls.append(1)) == 1.0
    assert bench(lambda: calls.append(1), quantiles=[0.5, 0.2, 0.8]) == [1.0] * 3
    assert bench(lambda: calls.append(1), return_mode="all") == [1.0]
    assert triton.testing.do_bench_cudagraph(lambda: calls.append(1)) == 1.0
    assert world.driver.get_benchmarker()(lambda: calls.append(1), quantiles=(0.5,)) == 1.0
    assert len(calls) == 5
    seen = []

    @triton.testing.perf_report(
        triton.testing.Benchmark(
            x_names=["M", "N"],
            x_vals=[2**i for i in range(1, 9)],
            line_arg="provider",
            line_vals=["triton", "torch"],
            line_names=["Triton", "Torch"],
            plot_name="speed",
            args={"K": 7},
        )
    )
    def benchmark(M, N, K, provider):
        seen.append((M, N, provider))
        if provider == "torch":
            raise ValueError("no such provider")
        return 1.0

    benchmark.run(show_plots=True, print_data=True)
    assert [s[0] for s in seen] == [2, 2, 32, 32, 256, 256]
    said, *failed = world.notes
    assert said == "benchmark speed: 3 of 8 values of M, N are run (--tests all: every one)"
    assert len(failed) == 3
    assert "no such provider" in failed[0]
    assert "provider=torch" in failed[0]


@in_world()
def test_profilers_see_nothing(world: World) -> None:
    profiler = importlib.import_module("triton.profiler")
    session = profiler.start("name", hook="triton")
    with profiler.scope("part"):
        pass
    profiler.finalize(session)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        torch.ones(2, device="cuda").sum()
        profile.step()
    assert not list(profile.key_averages())


@in_world("gfx1100")
def test_rocm_tools_answer_for_the_device(world: World) -> None:
    def said(*command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert said("rocm_agent_enumerator").strip() == "gfx1100"
    assert "gfx1100" in said("rocminfo")
    assert "AMD" in said("rocm-smi", "--showproductname")
    root = Path(os.environ["ROCM_HOME"])
    assert said("hipconfig", "--path") == str(root)
    assert said("hipconfig", "--platform") == "amd"
    assert (root / ".info" / "version").read_text().startswith("6.")
    code = "import os; print(os.environ['ROCM_PATH'], 'CUDA_VISIBLE_DEVICES' in os.environ)"
    assert said(sys.executable, "-c", code).split() == [str(root), "False"]


@in_world(stubs=("no_such_module", "parent.child"))
def test_stubbed_modules_are_inert(world: World) -> None:
    import no_such_module as stub
    from no_such_module.deep.inside import Base, decorator

    class Derived(Base):
        value = 3

    @decorator
    def plain():
        return 5

    @stub.with_arguments(1, key=2)
    def decorated():
        return 6

    with stub.context() as entered:
        assert not list(entered)
    assert (Derived(1, 2).value, plain(), decorated()) == (3, 5, 6)
    assert stub.anything.at.all(1)[2] is not None
    limits = stub.axes().get_ylim()
    assert f"{(limits[1] * 1.1 + 2 - limits[0]) / 3:.2f}" == "<not installed>"
    tensor = torch.ones(4, device="cuda")
    turned = stub.rearrange(tensor, "a -> a 1")
    for use in (
        lambda: turned @ tensor,
        lambda: tensor - turned,
        lambda: torch.exp(turned.to(torch.float16)),
    ):
        with pytest.raises(TypeError, match=r"not known: no_such_module is not installed"):
            use()
    with pytest.raises(ModuleNotFoundError):
        import parent.other  # noqa: F401


@pytest.mark.parametrize("name", ["torch", "triton.language", "numpy"])
def test_what_cannot_be_stubbed(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be stubbed"):
        _install_in_child(name, tmp_path)


def _install_in_child(name: str, folder: Path) -> None:
    from kinspect.inspector.guest.world import stubs

    stubs.install([name])


@in_world()
def test_interpreter_mode_is_overruled(world: World) -> None:
    os.environ["TRITON_INTERPRET"] = "1"

    @triton.jit
    def kernel(x_ptr):
        tl.store(x_ptr, 1.0)

    assert len(_sources(lambda: kernel[(1,)](torch.empty(1, device="cuda")))) == 1
    with world.suspended():
        pass
    assert any("TRITON_INTERPRET" in note for note in world.notes)


def test_works_without_torch(tmp_path: Path) -> None:
    script = f"""
import sys
sys.modules["torch"] = None
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == "torch" else find(name, *a)
from kinspect.inspector.guest.world.device import StandInDevice
from kinspect.inspector.guest.world.machine import install
world = install(StandInDevice.of("gfx1201"), {str(tmp_path)!r})
import triton
assert triton.runtime.driver.active.get_current_target().warp_size == 32
with world.running():
    with world.suspended():
        assert triton.testing.do_bench(lambda: 1) == 1.0
try:
    world.tensor(1)
except ValueError as error:
    assert "torch" in str(error)
else:
    raise AssertionError
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_overhead_of_an_operator() -> None:
    """Scripts run thousands of operators: tens of microseconds each, not milliseconds."""

    @in_world()
    def check(world: World) -> None:
        import time

        small, large = torch.randn(64, 64, device="cuda"), torch.randn(4096, 4096, device="cuda")
        for x in (small, large):
            for _ in range(20):
                x + x
            start = time.process_time()
            for _ in range(500):
                (x + x).view(-1)
            each = (time.process_time() - start) / 1000
            assert each < 400e-6, f"{each * 1e6:.0f} us"

    check()
