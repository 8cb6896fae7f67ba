"""Finds the module that an import failed for, and what to install.

It is often not the module that was imported: Triton's interpreter imports NumPy, for example, which
neither Triton nor PyTorch depends on.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

# Names on the package index that differ from the module's. Each was looked up there, with its
# description, since a wrong name would install other people's code.
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
    "torch": "torch --index-url https://download.pytorch.org/whl/cpu",  # without 5 GB of CUDA
    "triton": "triton",
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
"""Packages that pip installs by the module's name."""
REQUIRED = frozenset(("numpy", "torch"))
"""Packages beside Triton that captures need."""


def is_module(name: str) -> bool:
    """Whether the name in a failed import is a module's: some packages put a sentence there."""
    return all(part.isidentifier() for part in name.split("."))


def module_exists(name: str) -> bool:
    """Whether a module is imported already, or can be found."""
    if name in sys.modules:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def missing_module(failure: BaseException) -> str | None:
    """The dotted name of the missing module; None for an import that failed for another reason.

    In a chain of exceptions the original one counts.
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
    """The hint for an import that failed in this interpreter.

    `module`: the module that was imported, for a failure that names none.
    """
    name = missing_module(failure)
    alternative = "or name another interpreter with --python"
    if name is None and isinstance(failure, ImportError) and "relative import" in str(failure):
        return f"name the file by its path in its package's folder, {alternative}"
    if name is None:
        # The module exists and does not load: it needs a library, or lacks a name.
        module_name = getattr(failure, "name", None) or ""
        broken = (module_name if is_module(module_name) else module).partition(".")[0]
        return f"mend or replace the {broken} of {sys.executable}, {alternative}"
    top = name.partition(".")[0]
    if top != name and module_exists(top):
        hiding_file = _single_file(top)
        if hiding_file is not None:
            return (
                f"{hiding_file} hides the package {top}: give the file another name, {alternative}"
            )
        return (
            f"the {top} of {sys.executable} has no {name}: install another version, {alternative}"
        )
    if top not in PACKAGES and top not in DISTRIBUTIONS and top not in REQUIRED:
        return f"install what brings {top} (it is not a package known here), {alternative}"
    package = DISTRIBUTIONS.get(top, top)
    command = f"{sys.executable} -m pip install {package}"
    return f"name an interpreter that has it with --python, or install it: `{command}`"


def stub_note(names: Sequence[str]) -> str:
    """The note on modules that were replaced by stubs.

    `names`: dotted names; submodules are files that a package's build would have made.
    """
    missing = [name for name in names if "." not in name]
    unbuilt = [name for name in names if "." in name]
    sentences = []
    if missing:
        packages = [name for name in missing if name in PACKAGES or name in DISTRIBUTIONS]
        unknown = [name for name in missing if name not in packages]
        remedy = (
            f"name an interpreter that has {'it' if len(missing) == 1 else 'them'} with --python"
        )
        if packages:
            distributions = " ".join(
                dict.fromkeys(DISTRIBUTIONS.get(name, name) for name in packages)
            )
            remedy = f"{sys.executable} -m pip install {distributions}, or {remedy}"
        if unknown:
            description = "it is not a package" if len(unknown) == 1 else "they are not packages"
            module_name = f"{', '.join(unknown)}: " if packages else ""
            remedy += f" ({module_name}{description} known here: where the project has such files, "
            remedy += "run the script from there)"
        sentences.append(
            f"{_listed_with_verb(missing)} not installed: stand-ins that do nothing take the place;"
            f" {remedy}"
        )
    if unbuilt:
        sentences.append(
            f"{_listed_with_verb(unbuilt)} not built: stand-ins that do nothing take the place;"
            " build the package, or name an interpreter that has it with --python"
        )
    return ". ".join(sentences)


def _listed_with_verb(names: Sequence[str]) -> str:
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
