"""Reads ONNX files: the model, and its tensors, in the file or beside it.

External data is read from the model's own folder and from nowhere else: a path that is absolute,
that climbs out, or whose links lead out of the folder is refused before anything is opened.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from polyc.dialects.common.diagnostic import PolycError
from polyc.importers.onnx_ops.items import Array
from polyc.importers.registry import bad_model, library

MOST_ELEMENTS = 2**40
"""Elements of one tensor, at most: beyond it a size is no model's."""

EXTERNAL = 1
"""``onnx.TensorProto.EXTERNAL``."""


def read_model(onnx: Any, path: Path) -> Any:
    """The ModelProto of a file, its external data left where it is.

    Raises PolycError ``BadModel`` for what is no ONNX model, and OSError.
    """
    text = path.read_bytes()
    model = onnx.ModelProto()
    decode_error = library("google.protobuf.message", "onnx").DecodeError
    try:
        model.ParseFromString(text)
    except (decode_error, ValueError, RecursionError) as error:
        bad_model(str(path), f"is no ONNX model, or is cut short: {error}")
    if not model.HasField("graph"):
        bad_model(str(path), "has no graph; an ONNX model has one")
    return model


class Tensors:
    """The tensors of one model, each read once."""

    def __init__(self, onnx: Any, path: str, folder: Path | None) -> None:
        self.onnx, self.path, self.folder = onnx, path, folder
        self._read: dict[int, tuple[Any, Array]] = {}

    def array(self, tensor: Any) -> Array:
        """The numbers of a TensorProto.  Raises PolycError ``BadModel``."""
        if (known := self._read.get(id(tensor))) is None:
            known = self._read[id(tensor)] = tensor, self._array(tensor)
        return known[1]

    def check(self, model: Any) -> None:
        """Compare what the sizes of all tensors in a model promise with what is there.

        To be done before onnx's own library sees them, which believes what a size says.  Raises
        PolycError ``BadModel``.
        """
        for tensor in _tensors_in(model):
            if tensor.data_location != EXTERNAL:
                self._sizes(tensor)

    def _sizes(self, tensor: Any) -> tuple[str, list[int], Any]:
        """What a tensor is called, its sizes and its type, where its numbers are as many."""
        what, dims, dtype = self._header(tensor)
        count = math.prod(dims)
        if tensor.HasField("raw_data"):
            bits = _bits(dtype)
            if len(tensor.raw_data) != (wanted := -(-count * bits // 8)):
                bad_model(
                    self.path,
                    f"has {what} of {dims} with {len(tensor.raw_data)} bytes; it takes {wanted}",
                )
        elif count > (there := _PER_ENTRY * _entries(tensor)):
            bad_model(self.path, f"has {what} of {dims} with at most {there} numbers")
        return what, dims, dtype

    def _header(self, tensor: Any) -> tuple[str, list[int], Any]:
        what = f"tensor {tensor.name!r}" if tensor.name else "a tensor"
        dims = [int(d) for d in tensor.dims]
        if any(d < 0 for d in dims) or math.prod(dims) > MOST_ELEMENTS:
            bad_model(self.path, f"has {what} of {dims}, which is no tensor's size")
        try:
            dtype = np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
        except (KeyError, TypeError, ValueError):
            bad_model(
                self.path, f"has {what} of element type {tensor.data_type}, which ONNX has not"
            )
        return what, dims, dtype

    def _array(self, tensor: Any) -> Array:
        if tensor.data_location == EXTERNAL:
            return self._external(tensor, *self._header(tensor))
        # What a size promises is compared with what is there before anything is made of it.
        what, dims, _ = self._sizes(tensor)
        try:
            found = self.onnx.numpy_helper.to_array(tensor)
        except Exception as error:
            bad_model(self.path, f"has {what} of {dims} that cannot be read: {error}")
        return np.asarray(found)

    def dense(self, sparse: Any) -> Array:
        """The numbers of a SparseTensorProto, zeros and all."""
        dims = [int(d) for d in sparse.dims]
        values, indices = self.array(sparse.values), self.array(sparse.indices)
        count = math.prod(dims)
        if any(d < 0 for d in dims) or count > max(64 * values.size, 1 << 24):
            bad_model(self.path, f"has a sparse tensor of {dims} with {values.size} numbers")
        flat = np.zeros(count, dtype=values.dtype)
        at = indices
        if indices.ndim == 2:
            if any((indices[:, i] >= d).any() or (indices < 0).any() for i, d in enumerate(dims)):
                bad_model(self.path, f"has a sparse tensor of {dims} with places outside of it")
            at = np.ravel_multi_index(tuple(indices.T), dims)
        if at.size and (at.min() < 0 or at.max() >= count):
            bad_model(self.path, f"has a sparse tensor of {dims} with places outside of it")
        flat[at] = values
        return flat.reshape(dims)

    def _external(self, tensor: Any, what: str, dims: list[int], dtype: Any) -> Array:
        entries = {e.key: e.value for e in tensor.external_data}
        location = entries.get("location", "")
        file = self._inside(location, what)
        try:
            offset, length = int(entries.get("offset", 0)), int(entries.get("length", -1))
        except ValueError:
            bad_model(self.path, f"has {what} in {location!r} at an offset that is no number")
        bits, count = _bits(dtype), math.prod(dims)
        wanted = -(-count * bits // 8)
        there = file.stat().st_size
        if offset < 0 or (length not in (-1, wanted)) or offset + wanted > there:
            bad_model(
                self.path,
                f"has {what} of {dims}, {wanted} bytes, in {location!r} at {offset} with a length "
                f"of {length if length >= 0 else there - offset}; the file has {there} bytes",
            )
        if bits % 8:
            bad_model(
                self.path,
                f"has {what} of {dtype} in {location!r}, which is packed; store it in the model",
            )
        found = np.fromfile(file, dtype=dtype, count=count, offset=offset)
        return found.reshape(dims)

    def _inside(self, location: str, what: str) -> Path:
        """A file of the model's folder.  Refuses all else before it is opened."""
        if self.folder is None:
            raise PolycError(
                "BadModel",
                f"{self.path} has {what} in a file of its own, {location!r}; give the folder that "
                "it is in as from_onnx(…, folder=…)",
            )
        where = f"has {what} in {location!r}, which"
        parts = PurePosixPath(location).parts
        if (
            not location
            or "\0" in location
            or location.startswith(("/", "\\"))
            or PureWindowsPath(location).drive
            or ".." in parts
            or ".." in PureWindowsPath(location).parts
        ):
            bad_model(self.path, f"{where} is no path inside of the model's folder")
        root = Path(os.path.realpath(self.folder))
        real = Path(os.path.realpath(root / location))
        if root != real and root not in real.parents:
            bad_model(self.path, f"{where} leads out of the model's folder")
        if not real.is_file():
            bad_model(self.path, f"{where} is no file of the model's folder")
        return real


def _tensors_in(model: Any) -> Iterator[Any]:
    """Every TensorProto of a model, also those of attributes and inner graphs."""
    graphs = [model.graph]
    nodes = [node for function in model.functions for node in function.node]
    while graphs or nodes:
        if not nodes:
            graph = graphs.pop()
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
            nodes += graph.node
            continue
        for attribute in nodes.pop().attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("sparse_tensor"):
                yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
            if attribute.HasField("g"):
                graphs.append(attribute.g)
            graphs += attribute.graphs


_FIELDS = (
    *("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data"),
)

_PER_ENTRY = 8
"""Numbers that an entry of a tensor's data holds, at most: of two bits in one byte or in four."""


def _entries(tensor: Any) -> int:
    return sum(len(getattr(tensor, field)) for field in _FIELDS)


def _bits(dtype: Any) -> int:
    name = dtype.name
    for bits in (4, 2):
        if name in (f"int{bits}", f"uint{bits}") or name.startswith(f"float{bits}_"):
            return bits
    return int(dtype.itemsize) * 8
