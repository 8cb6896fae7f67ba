"""Layouts as JSON: each as the map from elements to their holders, or to bytes of LDS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TextIO

from ..base.streams import dump_json
from ..explain.layout_pictures import LdsPicture, RegisterPicture
from ..explain.layout_values import LayoutDrawing
from ..ttgir.layouts import Holder


def write(drawn: Sequence[LayoutDrawing], title: str, stream: TextIO) -> None:
    """Writes the layouts."""
    data = {"schema_version": 1, "kernel": title, "values": [_entry(item) for item in drawn]}
    dump_json(data, stream)


def _entry(item: LayoutDrawing) -> dict[str, Any]:
    value, picture = item.value, item.picture
    entry: dict[str, Any] = {
        "value": value.name,
        "others": item.others,
        "operation": value.op.name,
        "ttgir_line": value.op.line,
        "source": value.place or None,
        "shape": list(value.type.shape),
        "element": value.type.element,
        "layout": value.layout.text,
        "alias": item.alias or None,
        "kind": value.layout.kind,
        "registers": None,
        "lds": None,
    }
    if isinstance(picture, RegisterPicture):
        entry["registers"] = _registers(picture)
    elif isinstance(picture, LdsPicture):
        entry["lds"] = _lds(picture)
    return entry


def _registers(picture: RegisterPicture) -> dict[str, Any]:
    """An element is held by the exclusive or of `steps` over the bits of its coordinates."""
    steps = picture.holders.steps[-len(picture.shape) :]
    return {
        "waves": picture.waves,
        "lanes": picture.lanes,
        "elements_per_lane": picture.registers,
        "held": picture.times,
        "steps": [[_holder(step) for step in dim] for dim in steps],
        "copies": [_holder(copy) for copy in picture.copies],
    }


def _holder(holder: Holder) -> dict[str, int]:
    return {
        "workgroup": holder.block,
        "wave": holder.warp,
        "lane": holder.lane,
        "element": holder.register,
    }


def _lds(picture: LdsPicture) -> dict[str, Any]:
    return {
        "copies": picture.copies,
        "bytes": picture.span,
        "element_bits": picture.bits,
        "banks": picture.banks,
        "cell_dim": picture.fast,
        "row_dim": picture.slow,
        "cell_elements": picture.cell,
        "rows": [list(row.starts) for row in picture.rows],
        "planes": [
            {"index": list(where), "byte": start} for where, start in picture.planes if where
        ],
    }
