"""Which module an import really failed for, and what to install.

The module that was asked for is often not the one that lacks: Triton's interpreter imports NumPy,
which neither Triton nor PyTorch brings along.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

# Names on the package index, where they are others than the module's.
DISTRIBUTIONS = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "google": "protobuf",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "pkg_resources": "setuptools",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "triton": "kinspect[triton]",  # with NumPy, which its interpreter needs
    "yaml": "pyyaml",
}

PACKAGES = frozenset(
    (
        *("accelerate", "aiter", "albumentations", "apex", "auto_gptq", "bitsandbytes", "boto3"),
        *("causal_conv1d", "click", "colossalai", "compressed_tensors", "cupy", "cutlass"),
        *("datasets", "deep_gemm", "deepspeed", "diffusers", "einops", "evaluate", "expecttest"),
        *("fairscale", "fbgemm_gpu", "fire", "fla", "flash_attn", "flashinfer", "fvcore"),
        *("gradio", "helion", "huggingface_hub", "hydra", "hypothesis", "ipdb", "jax", "jaxtyping"),
        *("kornia", "lightning", "liger_kernel", "litgpt", "lm_eval", "loguru", "mamba_ssm"),
        *(
            "matplotlib",
            "megablocks",
            "ml_dtypes",
            "networkx",
            "ninja",
            "nltk",
            "numba",
            "omegaconf",
        ),
        *("onnx", "openai", "optimum", "packaging", "pandas", "parameterized", "peft", "plotly"),
        *("prettytable", "psutil", "pyarrow", "pydantic", "pytest", "pytorch_lightning", "ray"),
        *("regex", "requests", "rich", "safetensors", "scattermoe", "scipy", "seaborn"),
        *("sentencepiece", "sglang", "simple_parsing", "submitit", "sympy", "tabulate"),
        *("tensorboard", "termcolor", "tiktoken", "tilelang", "timm", "tokenizers", "torchao"),
        *("torchaudio", "torchmetrics", "torchtitan", "torchtune", "torchvision", "tqdm"),
        *("transformer_engine", "transformers", "triton_kernels", "trl", "tyro", "typer"),
        *("unsloth", "unsloth_zoo", "vllm", "wandb", "xformers", "zmq"),
    )
)
"""Packages of which it is known that pip finds them by the module's name."""


def is_module(name: str) -> bool:
    """Whether a failed import's name is one: packages raise such errors with texts, too."""
    return all(part.isidentifier() for part in name.split("."))


def missing_module(failure: BaseException) -> str | None:
    """The module that is not there, in dots; None for an import that failed for another reason.

    The first failure of a chain counts: what was raised from it only passes it on.
    """
    found = None
    cause: BaseException | None = failure
    seen = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, ModuleNotFoundError) and is_module(cause.name or ""):
            found = cause.name
        cause = cause.__cause__
    return found


def install_hint(failure: BaseException, wanted: str) -> str:
    """What to do about an import that failed in this interpreter.

    Args:
        failure: the exception.
        wanted: the module that was imported, for a failure that names none.
    """
    name = missing_module(failure)
    other = "or name another interpreter with --python"
    if name is None and isinstance(failure, ImportError) and "relative import" in str(failure):
        return f"name the file by its path in its package's folder, {other}"
    if name is None:
        # It is there, and does not load: a library that it needs, or a name that it has not.
        broken = (getattr(failure, "name", None) or wanted).partition(".")[0]
        return f"mend or replace the {broken} of {sys.executable}, {other}"
    top = name.partition(".")[0]
    if top != name and _is_there(top):
        hiding = _single_file(top)
        if hiding is not None:
            return f"{hiding} hides the package {top}: give the file another name, {other}"
        return f"the {top} of {sys.executable} has no {name}: install another version, {other}"
    package = DISTRIBUTIONS.get(top, top)
    quoted = f"'{package}'" if "[" in package else package
    return f"{sys.executable} -m pip install {quoted}, {other}"


def stood_in(names: Sequence[str]) -> str:
    """What is said, once, of modules that a stand-in took the place of.

    Args:
        names: in dots; those below a package are what its build would have made.
    """
    missing = [name for name in names if "." not in name]
    unbuilt = [name for name in names if "." in name]
    said = []
    if missing:
        packages = [name for name in missing if name in PACKAGES or name in DISTRIBUTIONS]
        others = [name for name in missing if name not in packages]
        do = f"name an interpreter that has {'it' if len(missing) == 1 else 'them'} with --python"
        if packages:
            wanted = " ".join(dict.fromkeys(DISTRIBUTIONS.get(name, name) for name in packages))
            do = f"{sys.executable} -m pip install {wanted}, or {do}"
        if others:
            they = "it is no package" if len(others) == 1 else "they are no packages"
            named = f"{', '.join(others)}: " if packages else ""
            do += f" ({named}{they} known here: where the project has such files, run the script"
            do += " from there)"
        said.append(
            f"{_listed(missing)} not installed: stand-ins that do nothing take the place; {do}"
        )
    if unbuilt:
        said.append(
            f"{_listed(unbuilt)} not built: stand-ins that do nothing take the place; build the"
            " package, or name an interpreter that has it with --python"
        )
    return ". ".join(said)


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
