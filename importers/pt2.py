"""``.pt2`` files: what such an archive may hold, looked at before PyTorch reads it.

``torch.export.load`` trusts a file: where its unpickler of weights alone refuses a tensor it takes
Python's pickle, which calls what the file names; custom objects are pickles always; sizes are texts
that sympy evaluates; and an op is any name inside of ``torch``, which a run calls.  So an archive
that holds more than a graph and plain tensors is refused, and PyTorch is told to read no pickle but
of weights while it reads.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import threading
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from polyc.importers.registry import bad_model, library

MAX_JSON = 1 << 30
"""Bytes of a graph's description, unpacked."""

MOST_PACKED = 100
"""How many times its bytes an entry may unpack to: PyTorch packs nothing, and texts pack well."""

LITTLE = 1 << 20
"""Bytes that an entry may unpack to in any case."""

_REFUSED = re.compile(
    r"/data/(constants/(custom_obj|opaque_obj)|constants/[^/]*\.pt$|aotinductor/)", re.I
)
"""Entries that are code, or pickles of any object."""

_TARGET = re.compile(
    r"(torch\.ops(\.(?!__)\w+){2,3}|torch\.sym_\w+|torch\._sym_sqrt|_operator\.\w+|math\.\w+)"
)
"""Names of ops: of PyTorch's registry of these, and of arithmetic of sizes."""

_SYMBOL = re.compile(r"'[A-Za-z]+\d*'")
_EXPRESSION = re.compile(r"[\w\s+\-*/%(),=<>.~&|]*")
_WORD = re.compile(r"[A-Za-z_]\w*")
_SIZE = re.compile(r"(s|u|zf|zuf)\d+")
_WORDS = """
Symbol Integer Rational Float Add Mul Pow Max Min Mod Eq Ne Lt Le Gt Ge And Or Not True False
Abs Where Identity FloorDiv CleanDiv CeilDiv ModularIndexing PythonMod IntTrueDiv FloatTrueDiv
FloatPow PowByNatural ToFloat TruncToInt TruncToFloat FloorToInt CeilToInt RoundToInt
RoundDecimal LShift RShift IsNonOverlappingAndDenseIndicator BitwiseFn_bitwise_and
BitwiseFn_bitwise_or OpaqueUnaryFn_sqrt positive nonnegative negative nonpositive nonzero
integer real evaluate finite oo int_oo sqrt
""".split()  # noqa: SIM905
"""Words that a size's text may have beside symbols: of sympy's and PyTorch's printers."""

_LOCK = threading.Lock()


def load_exported(path: str | Path) -> Any:
    """The ``torch.export.ExportedProgram`` of a file that ``torch.export.save`` wrote.

    Nothing that the file holds is run.  Raises PolycError ``BadModel`` for a file that is none, or
    that holds more than a graph and tensors, and OSError.
    """
    torch: Any = library("torch", "torch")
    text = str(path)
    with open(path, "rb") as file:
        if file.read(4) != b"PK\x03\x04":
            bad_model(text, "is no .pt2 file, an archive that torch.export.save writes")
        # What was looked at is what is read, whatever the path names later.
        file.seek(0)
        _check(text, file)
        try:
            try:
                return _loaded(torch, file)
            except NotImplementedError:
                # The class of a result, such as transformers', is not known here; only what it
                # holds is asked for.
                return _loaded(torch, _with_plain_trees(file))
        except Exception as error:
            # Whatever a malformed archive brings about in PyTorch's reader.
            reason = str(error).strip().partition("\n")[0][:200] or "no reason given"
            kind = type(error).__name__
            bad_model(text, f"cannot be read as an exported program: {kind}: {reason}")


def _loaded(torch: Any, file: Any) -> Any:
    """What PyTorch reads of an archive.  Raises what was wrong with it."""
    file.seek(0)
    with _weights_only() as log:
        try:
            return torch.export.load(file)
        except Exception as error:
            # It logs what it ran into, and raises that it did.
            raise log.error or error from None


class _Log(logging.Handler):
    """What PyTorch's reader logs of a malformed file, a traceback, which is not shown."""

    error: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None:
            self.error = record.exc_info[1]


def _with_plain_trees(file: Any) -> Any:
    """The archive with lists in the place of other classes that arguments and results are of."""
    made = io.BytesIO()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(made, "w") as target:
        for entry in source.infolist():
            data = source.read(entry)
            if entry.filename.endswith(".json") and "/models/" in entry.filename:
                data = json.dumps(_plain_trees(json.loads(data))).encode()
            target.writestr(entry.filename, data)
    return made


def _plain_trees(tree: Any) -> Any:
    """A description whose ``in_spec`` and ``out_spec``, texts of JSON, have plain classes only."""
    left = [tree]
    while left:
        one = left.pop()
        if isinstance(one, list):
            left += cast("list[Any]", one)
        elif isinstance(one, dict):
            found = cast("dict[str, Any]", one)
            left += found.values()
            for key in ("in_spec", "out_spec"):
                if isinstance(text := found.get(key), str) and text:
                    found[key] = json.dumps(_plain_tree(json.loads(text)))
    return tree


_PLAIN = ("builtins.", "collections.OrderedDict", "collections.defaultdict", "collections.deque")
"""Classes that every process knows."""


def _plain_tree(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_plain_tree(one) for one in cast("list[Any]", tree)]
    if not isinstance(tree, dict):
        return tree
    found = {key: _plain_tree(one) for key, one in cast("dict[str, Any]", tree).items()}
    kind = found.get("type")
    if isinstance(kind, str) and not kind.startswith(_PLAIN):
        return {**found, "type": "builtins.list", "context": "null"}
    return found


@contextmanager
def _weights_only() -> Generator[_Log, None, None]:
    """PyTorch's setting that no reading of tensors falls back to pickles of any object.

    What its reader logs goes to the result alone.
    """
    names = ("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    with _LOCK:
        before = {name: os.environ.pop(name, None) for name in names}
        os.environ[names[0]] = "1"
        log, kept = logging.getLogger("torch.export"), _Log()
        shown, handlers = (log.handlers, log.propagate), list[logging.Handler]([kept])
        log.handlers, log.propagate = handlers, False
        try:
            yield kept
        finally:
            log.handlers, log.propagate = shown
            del os.environ[names[0]]
            os.environ.update({name: one for name, one in before.items() if one is not None})


def _check(path: str, file: Any) -> None:
    """Refuse an archive that holds what is not a graph, its tensors, and texts about them."""
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            # Readers may differ in which of two entries of one name they take.
            names = [entry.filename.lower() for entry in entries]
            if len(set(names)) < len(names):
                bad_model(path, "has two entries of one name")
            if not any(name.endswith("/archive_version") for name in names):
                bad_model(path, "cannot be read as an exported program: it has no archive_version")
            for entry in entries:
                if _REFUSED.search(entry.filename) is not None:
                    bad_model(path, f"holds code or objects, {entry.filename}, which are not run")
                if entry.file_size > max(MOST_PACKED * entry.compress_size, LITTLE):
                    bad_model(
                        path,
                        f"holds {entry.filename}, {entry.compress_size} bytes that unpack to "
                        f"{entry.file_size}",
                    )
                if entry.filename.endswith(".json"):
                    if entry.file_size > MAX_JSON:
                        bad_model(path, f"describes its graph in {entry.file_size} bytes")
                    _check_json(path, entry.filename, json.loads(archive.read(entry)))
    except (zipfile.BadZipFile, ValueError, RecursionError, NotImplementedError, EOFError) as error:
        bad_model(path, f"cannot be read as an exported program: {error}")


def _check_json(path: str, entry: str, data: Any) -> None:
    """Refuse names of ops and texts of sizes that could be anything else."""
    left = [data]
    while left:
        one = left.pop()
        if isinstance(one, list):
            left += cast("list[Any]", one)
        elif isinstance(one, dict):
            for key, value in cast("dict[str, Any]", one).items():
                if isinstance(value, str):
                    if key == "target" and "/models/" in entry and not _TARGET.fullmatch(value):
                        bad_model(path, f"has {value[:100]!r} for an op")
                    if key == "expr_str" and not _is_size(value):
                        bad_model(path, f"has {value[:100]!r} for a size")
                elif key == "use_pickle" and value:
                    bad_model(path, "holds tensors as pickles, which are not run; save plain ones")
                else:
                    left.append(value)


def _is_size(text: str) -> bool:
    """Whether a text is an expression of symbols and numbers alone."""
    bare = _SYMBOL.sub("", text)
    if _EXPRESSION.fullmatch(bare) is None or re.search(r"\.\s*[A-Za-z_]", bare) is not None:
        return False
    words = _WORD.findall(bare)
    return all(word in _WORDS or _SIZE.fullmatch(word) is not None for word in words)
