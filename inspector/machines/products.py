"""The products of each target: their compute units, clock and memory bandwidth.

A machine file describes a target (gfx942), of which several products exist; where a recording names
the product, its figures are better than the machine's.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ..base.documents import own_yaml
from ..model import Machine
from .target_names import base_arch

_FILE = Path(__file__).with_name("products.yaml")
_VENDOR = re.compile(r"^(?:amd)?(?:instinct|radeonpro|radeon)?(?:rx)?")
"""What people may leave out of a product's name, as its blanks and capitals."""


class Product(Struct, frozen=True):
    """Peak figures of one agent of a product; `name` is the part of a driver's name for it.

    `l3_bytes` is None where it is that of the machine file.
    """

    name: str
    arch: str
    cus: int
    xccs: int
    clock_mhz: int
    memory_bytes_per_s: float
    source: str
    l3_bytes: int | None = None

    @property
    def typed(self) -> str:
        """The name as it is easily typed: `rx7900xtx`."""
        return _letters(self.name)


def product_named(name: str) -> Product | None:
    """The product that a person names: "mi300x", "RX 7900 XTX", "Radeon RX 7900 XTX", "7900xtx"."""
    return _products_by_name().get(_bare(name))


def find_product(
    name: str | None, arch: str | None = None, cus: int | None = None
) -> Product | None:
    """The product behind a name that a driver reports.

    `name`: such as "AMD Instinct MI300X". `arch`: if it names no product, the only one of this
    target that has as many CUs is taken. `cus`: see `arch`; None takes any. Returns None where it
    cannot be told.
    """
    if name is not None:
        if (named := product_named(name)) is not None:
            return named
        for pattern, product in _products():
            if pattern.search(name):
                return product
    if arch is None:
        return None
    matches = [
        product
        for _, product in _products()
        if product.arch == base_arch(arch) and (cus is None or product.cus == cus)
    ]
    return matches[0] if len(matches) == 1 else None


def shared_bandwidth(arch: str) -> tuple[float, str] | None:
    """The memory bandwidth that all products of a target share, and its source."""
    matches = [product for _, product in _products() if product.arch == base_arch(arch)]
    if len({product.memory_bytes_per_s for product in matches}) != 1:
        return None
    return matches[0].memory_bytes_per_s, matches[0].source


def all_products() -> tuple[Product, ...]:
    """Every product that is known."""
    return tuple(product for _, product in _products())


msgspec.json.Decoder(Product)
"""Two threads that are the first to convert to a Struct end the process (msgspec 0.22)."""


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _bare(name: str) -> str:
    return _VENDOR.sub("", _letters(name))


@functools.cache
def _products_by_name() -> Mapping[str, Product]:
    return {_bare(product.name): product for product in all_products()}


@functools.cache
def _products() -> tuple[tuple[re.Pattern[str], Product], ...]:
    """(pattern of the names that drivers report, product) for each entry of products.yaml."""
    entries: list[dict[str, Any]] = own_yaml(_FILE)
    return tuple(
        (
            re.compile(entry["match"], re.IGNORECASE),
            msgspec.convert(
                {
                    "name": entry["match"].replace(r"\b", ""),
                    "arch": entry["arch"],
                    "source": entry["source"],
                    **entry["figures"],
                },
                Product,
            ),
        )
        for entry in entries
    )


def memory_bytes_per_clk(machine: Machine) -> float | None:
    """Bytes per clock that the device's memory delivers, of the fastest of several products."""
    rates_of_products = [
        product.memory_bytes_per_s / (product.clock_mhz * 1e6)
        for product in all_products()
        if product.arch == machine.arch and product.cus == machine.cus
    ]
    return max(rates_of_products, default=None)
