"""Which module an import really failed for, and what to install.

The module that was asked for is often not the one that lacks: Triton's interpreter imports NumPy,
which neither Triton nor PyTorch brings along.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

# Names on the package index, where they are others than the module's. A wrong one would install
# a stranger's code: each was looked up, with what the index says of it.
DISTRIBUTIONS = {
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "aiter": "amd-aiter",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "composer": "mosaicml",
    "cpuinfo": "py-cpuinfo",
    "cutlass": "nvidia-cutlass",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "fla": "flash-linear-attention",
    "flashinfer": "flashinfer-python",
    "google": "protobuf",
    "hydra": "hydra-core",
    "open_clip": "open-clip-torch",
    "optimi": "torch-optimi",
    "pkg_resources": "setuptools",
    "pynvml": "nvidia-ml-py",
    "quack": "quack-kernels",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "streaming": "mosaicml-streaming",
    "torch_geometric": "torch-geometric",
    "triton": "kinspect[triton]",  # with NumPy, which its interpreter needs
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}

PACKAGES = frozenset(
    (
        *("accelerate", "aiohttp", "albumentations", "auto_gptq", "bitsandbytes", "blake3"),
        *("boto3", "cachetools", "causal_conv1d", "click", "cloudpickle", "colossalai"),
        *("compressed_tensors", "cupy", "cut_cross_entropy", "datasets", "decord", "deepspeed"),
        *("diffusers", "einops", "einx", "evaluate", "expecttest", "fairscale", "fastapi"),
        *("fastsafetensors", "fbgemm_gpu", "fire", "flash_attn", "ftfy", "fvcore", "gguf"),
        *("gradio", "gymnasium", "heavyball", "helion", "huggingface_hub", "hypothesis", "imageio"),
        *("ipdb", "jax", "jaxtyping", "jsonargparse", "kornia", "liger_kernel", "lightning"),
        *("lightning_utilities", "lion_pytorch", "litgpt", "llguidance", "lm_eval", "loguru"),
        *("lpips", "mamba_ssm", "matplotlib", "megablocks", "ml_collections", "ml_dtypes"),
        *("msgspec", "networkx", "ninja", "nltk", "numba", "omegaconf", "onnx", "openai"),
        *("opt_einsum", "optimum", "orjson", "outlines", "packaging", "pandas", "parameterized"),
        *("partial_json_parser", "peft", "plotly", "prettytable", "prometheus_client", "psutil"),
        *("pyarrow", "pybase64", "pydantic", "pytest", "pytorch_lightning", "ray", "regex"),
        *("requests", "rich", "rotary_embedding_torch", "safetensors", "scipy", "seaborn"),
        *("sentencepiece", "setproctitle", "sgl_kernel", "sglang", "simple_parsing", "spconv"),
        *("submitit", "sympy", "tabulate", "tensorboard", "tensordict", "termcolor", "tiktoken"),
        *("tilelang", "timm", "tokenizers", "torchao", "torchaudio", "torchdata", "torchmetrics"),
        *("torchtitan", "torchtune", "torchvision", "tqdm", "transformer_engine", "transformers"),
        *("trimesh", "trl", "typer", "tyro", "unsloth", "unsloth_zoo", "uvloop", "vllm", "wandb"),
        *("xformers", "xgrammar", "xxhash", "zstandard"),
    )
)
"""Packages of which it is known that pip finds them by the module's name."""


GUESTED = frozenset(("numpy", "torch"))
"""Besides Triton what captures stand on."""


def is_module(name: str) -> bool:
    """Whether a failed import's name is one: packages raise such errors with texts, too."""
    return all(part.isidentifier() for part in name.split("."))


def missing_module(failure: BaseException) -> str | None:
    """The module that is not there, in dots; None for an import that failed for another reason.

    The first failure of a chain counts: what was raised from it only passes it on.
    """
    module = None
    cause: BaseException | None = failure
    visited = set()
    while cause is not None and id(cause) not in visited:
        visited.add(id(cause))
        if isinstance(cause, ModuleNotFoundError) and is_module(cause.name or ""):
            module = cause.name
        cause = cause.__cause__
    return module


def install_hint(failure: BaseException, module: str) -> str:
    """What to do about an import that failed in this interpreter.

    Args:
        failure: the exception.
        module: the module that was imported, for a failure that names none.
    """
    name = missing_module(failure)
    or_python = "or name another interpreter with --python"
    if name is None and isinstance(failure, ImportError) and "relative import" in str(failure):
        return f"name the file by its path in its package's folder, {or_python}"
    if name is None:
        # It is there, and does not load: a library that it needs, or a name that it has not.
        named = getattr(failure, "name", None) or ""
        broken = (named if is_module(named) else module).partition(".")[0]
        return f"mend or replace the {broken} of {sys.executable}, {or_python}"
    top = name.partition(".")[0]
    if top != name and _is_there(top):
        hiding = _single_file(top)
        if hiding is not None:
            return f"{hiding} hides the package {top}: give the file another name, {or_python}"
        return f"the {top} of {sys.executable} has no {name}: install another version, {or_python}"
    if top not in PACKAGES and top not in DISTRIBUTIONS and top not in GUESTED:
        return f"install what brings {top} (it is no package known here), {or_python}"
    package = DISTRIBUTIONS.get(top, top)
    quoted = f"'{package}'" if "[" in package else package
    return f"{sys.executable} -m pip install {quoted}, {or_python}"


def stood_in(names: Sequence[str]) -> str:
    """The note on modules that were replaced by stand-ins.

    Args:
        names: in dots; those below a package are what its build would have made.
    """
    missing = [name for name in names if "." not in name]
    unbuilt = [name for name in names if "." in name]
    sentences = []
    if missing:
        packages = [name for name in missing if name in PACKAGES or name in DISTRIBUTIONS]
        unknown = [name for name in missing if name not in packages]
        do = f"name an interpreter that has {'it' if len(missing) == 1 else 'them'} with --python"
        if packages:
            distributions = " ".join(
                dict.fromkeys(DISTRIBUTIONS.get(name, name) for name in packages)
            )
            do = f"{sys.executable} -m pip install {distributions}, or {do}"
        if unknown:
            they = "it is no package" if len(unknown) == 1 else "they are no packages"
            named = f"{', '.join(unknown)}: " if packages else ""
            do += f" ({named}{they} known here: where the project has such files, run the script"
            do += " from there)"
        sentences.append(
            f"{_listed(missing)} not installed: stand-ins that do nothing take the place; {do}"
        )
    if unbuilt:
        sentences.append(
            f"{_listed(unbuilt)} not built: stand-ins that do nothing take the place; build the"
            " package, or name an interpreter that has it with --python"
        )
    return ". ".join(sentences)


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _single_file(name: str) -> str | None:
    """The file of a module that is no package."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.submodule_search_locations is not None or not spec.has_location:
        return None
    return spec.origin


def _is_there(name: str) -> bool:
    if name in sys.modules:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
