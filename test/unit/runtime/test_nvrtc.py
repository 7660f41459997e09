"""NVRTC: what compiles, what the log says, and the cache on disk.  Needs no GPU."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import cast

import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import nvrtc

SOURCE = """
extern "C" __global__ __launch_bounds__(128) void twice(float *p) {
  __shared__ float s[128];
  s[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = s[127 - threadIdx.x] * 2.0f;
}
extern "C" __global__ void idle() {}
"""


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("POLYC_CACHE", raising=False)
    return tmp_path / "polyc" / "nvrtc"


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_cubin_with_its_kernels(arch: str) -> None:
    result = nvrtc.compile_cuda(SOURCE, arch)
    assert result.image[:4] == b"\x7fELF"
    assert set(result.kernels) == {"twice", "idle"}
    info = result.kernels["twice"]
    assert info.smem == 512
    assert 0 < info.registers <= 32
    assert (info.spill_bytes, info.stack) == (0, 0)
    assert not result.warnings()


def test_ptx_is_for_the_virtual_architecture() -> None:
    image = nvrtc.compile_cuda(SOURCE, "sm_80", "ptx").image
    assert b".target sm_80" in image
    assert not image.endswith(b"\0")


def test_an_error_is_one_sentence_with_the_log_as_notes() -> None:
    with pytest.raises(PolycError) as caught:
        nvrtc.compile_cuda("void f( {", "sm_80", name="gemm.cu")
    assert caught.value.kind == "CompilerFailed"
    assert "for sm_80: gemm.cu(1): error:" in caught.value.message
    assert len(caught.value.notes) > 1


@pytest.mark.parametrize(("arch", "kind"), [("sm90", "UnknownArch"), ("sm_10", "CompilerFailed")])
def test_an_architecture_that_is_not_there(arch: str, kind: str) -> None:
    with pytest.raises(PolycError) as caught:
        nvrtc.compile_cuda(SOURCE, arch)
    assert caught.value.kind == kind


def test_each_part_changes_the_name_of_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [nvrtc.entry_name(SOURCE, "sm_80"), nvrtc.entry_name(SOURCE, "sm_90a")]
    names += [nvrtc.entry_name(SOURCE + " ", "sm_80"), nvrtc.entry_name(SOURCE, "sm_80", "ptx")]
    with monkeypatch.context() as patch:
        patch.setattr(nvrtc, "OPTIONS", (*nvrtc.OPTIONS, "--use_fast_math"))
        names.append(nvrtc.entry_name(SOURCE, "sm_80"))
    with monkeypatch.context() as patch:
        patch.setattr(nvrtc, "compiler_version", lambda: ("wheel", "99"))
        names.append(nvrtc.entry_name(SOURCE, "sm_80"))
    assert len(set(names)) == len(names) and nvrtc.entry_name(SOURCE, "sm_80") == names[0]


def test_the_log_of_ptxas_is_read_by_kernel() -> None:
    """A function that is not inlined has a frame of its own, which is not the kernel's."""
    log = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'gemm' for 'sm_90a'
ptxas info    : Function properties for gemm
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Function properties for helper
    96 bytes stack frame, 64 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 168 registers, used 3 barriers, 24 bytes smem, 560 bytes cmem[0]
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
"""
    assert nvrtc.kernels_of(log) == {"gemm": nvrtc.KernelInfo(168, 12, 16, 24)}
    assert len(nvrtc.CompileResult(b"", log, {}).warnings()) == 1


def test_the_cache_answers_the_second_time(own_cache: Path) -> None:
    first = nvrtc.compile_cuda(SOURCE, "sm_80")
    again = nvrtc.compile_cuda(SOURCE, "sm_80")
    assert not first.cached
    assert again.cached
    assert (again.image, again.log, again.kernels) == (first.image, first.log, first.kernels)
    assert not nvrtc.compile_cuda(SOURCE, "sm_90a").cached
    assert not nvrtc.compile_cuda(SOURCE, "sm_80", "ptx").cached
    assert not nvrtc.compile_cuda(SOURCE + "\n", "sm_80").cached
    assert len(list(own_cache.iterdir())) == 4


def forged(name: str, data: object, image: bytes = b"\x7fELF") -> bytes:
    """An entry whose hash and name are right and whose JSON is not what the cache writes."""
    if isinstance(data, dict):
        data = {**cast("dict[str, object]", data), "entry": name}
    rest = (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n" + image
    return hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


INFO: dict[str, object] = {"registers": 8, "spill_bytes": 0, "stack": 0, "smem": 0}
LOGS: list[object] = [None, 3, ["a"], {"a": 1}, True]
KERNELS: list[object] = [None, 3, [], "k", {"k": 3}, {"k": []}, {"k": {}}, {"k": {"more": 1}}]
REGISTERS: list[object] = ["8", 8.0, None, True, []]
FORGED: list[object] = [
    *[{"log": log, "kernels": {}} for log in LOGS],
    *[{"log": "", "kernels": kernels} for kernels in KERNELS],
    *[{"log": "", "kernels": {"k": INFO | {"registers": value}}} for value in REGISTERS],
    *[None, 3, [], "log", {}, {"log": ""}, {"kernels": {}}],
    *[b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"log": "\xff", "kernels": {}}'],
]


@pytest.mark.parametrize("data", FORGED, ids=lambda data: repr(data)[:40])
def test_an_entry_of_other_data_is_compiled_anew(own_cache: Path, data: object) -> None:
    first = nvrtc.compile_cuda(SOURCE, "sm_80", "ptx")
    (entry,) = own_cache.iterdir()
    entry.write_bytes(forged(entry.name, data))
    result = nvrtc.compile_cuda(SOURCE, "sm_80", "ptx")
    assert not result.cached and result.image == first.image
    assert isinstance(result.warnings(), tuple)
    assert nvrtc.compile_cuda(SOURCE, "sm_80", "ptx").cached, "it is written again"


def test_a_damaged_entry_is_compiled_anew(own_cache: Path) -> None:
    """Cut off, or one byte of it another one: in the hash, the log, the kernels or the image."""
    first = nvrtc.compile_cuda(SOURCE, "sm_80")
    (entry,) = own_cache.iterdir()
    data = entry.read_bytes()
    places = [0, 30, 64, 65, data.index(b'"log"'), data.index(b"registers") + 12, len(data) - 1]
    places += [data.index(b"\x7fELF"), data.index(b"Used")]
    flipped = [data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :] for i in places]
    cut = [data[:n] for n in (0, 1, 20, 64, 65, 100, len(data) // 2, len(data) - 1)]
    for damaged in (*flipped, *cut, data + b"x", b"[]\n", b"\xff\xfe", b"\0" * 1000):
        entry.write_bytes(damaged)
        result = nvrtc.compile_cuda(SOURCE, "sm_80")
        assert not result.cached
        assert (result.image, result.kernels) == (first.image, first.kernels)
        assert nvrtc.compile_cuda(SOURCE, "sm_80").cached, "it is written again"


def test_what_is_no_file_is_a_miss(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvrtc.compile_cuda(SOURCE, "sm_80", "ptx")
    (entry,) = own_cache.iterdir()
    data = entry.read_bytes()
    entry.unlink()
    entry.mkdir()
    assert not nvrtc.compile_cuda(SOURCE, "sm_80", "ptx").cached
    assert entry.read_bytes() == data
    entry.unlink()
    entry.mkdir()
    (entry / "kept").write_text("")  # somebody's own: a miss each time, and left alone
    for _ in range(2):
        assert not nvrtc.compile_cuda(SOURCE, "sm_80", "ptx").cached
    assert [p.name for p in own_cache.iterdir()] == [entry.name]
    (entry / "kept").unlink()
    entry.rmdir()
    entry.symlink_to(own_cache / "nowhere")
    assert not nvrtc.compile_cuda(SOURCE, "sm_80", "ptx").cached
    assert entry.read_bytes() == data and not entry.is_symlink()

    def unreadable(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", unreadable)
        assert not nvrtc.compile_cuda(SOURCE, "sm_80", "ptx").cached
    assert nvrtc.compile_cuda(SOURCE, "sm_80", "ptx").cached


def test_writers_at_once_leave_a_whole_entry(own_cache: Path) -> None:
    """Each writes a file of its own and puts it in the entry's place; readers meet whole ones."""
    image = bytes(range(256)) * 4000
    result = nvrtc.CompileResult(image, "log", {"k": nvrtc.KernelInfo(8, 0, 0, 0)})
    entry = own_cache / "entry.cubin"
    wrong: list[object] = []

    def work() -> None:
        for _ in range(20):
            nvrtc._store(entry, result)  # pyright: ignore[reportPrivateUsage]
            found = nvrtc._load(entry)  # pyright: ignore[reportPrivateUsage]
            if found is None or found.image != image:
                wrong.append(found)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and [p.name for p in own_cache.iterdir()] == ["entry.cubin"]


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    assert nvrtc.cache_dir() is None
    assert not nvrtc.compile_cuda(SOURCE, "sm_80", "ptx").cached


def test_the_cache_can_be_turned_off(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYC_CACHE", "0")
    for _ in range(2):
        assert not nvrtc.compile_cuda(SOURCE, "sm_80").cached
    assert not own_cache.exists()


def test_a_cache_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert not nvrtc.compile_cuda(SOURCE, "sm_80").cached


def test_importing_the_runtime_loads_no_library(root: Path) -> None:
    code = (
        "import sys, polyc.runtime.nvrtc, polyc.runtime.driver, polyc.runtime.program; "
        "sys.exit(any(m.startswith('cuda') for m in sys.modules))"
    )
    environment = {**os.environ, "PYTHONPATH": str(root / ".typecheck")}
    done = subprocess.run([sys.executable, "-c", code], check=False, env=environment)
    assert done.returncode == 0


def test_an_empty_log_is_not_written_over_pythons_own_blank(own_cache: Path) -> None:
    """PTX has an empty log, one byte of 0; b" " stays what it is."""
    nvrtc.compile_cuda(SOURCE, "sm_80", "ptx")
    assert bytes([32])[0] == 32 and b"a b"[1:2] == bytes([32, 32])[:1]
    assert list(b"x y"[1:2]) == [32]
