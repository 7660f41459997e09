"""Where NVRTC is found, and what it answers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import nvrtc_library
from polyc.runtime.installed import installed
from polyc.runtime.nvrtc_library import Program, call, library, places, version


def test_wheels_come_first_and_the_newest_of_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("cu12/lib/libnvrtc.so.12", "cu13/lib/libnvrtc.so.13", "cu13/lib/libnvrtc.alt.so"):
        (tmp_path / "nvidia" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "nvidia" / name).touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "none"), str(tmp_path)])
    monkeypatch.setenv("CUDA_HOME", "/toolkit")
    found = list(places())
    wheels = [f"{tmp_path}/nvidia/cu{n}/lib/libnvrtc.so.{n}" for n in (13, 12)]
    assert found[:4] == [*wheels, *nvrtc_library.NAMES]
    assert "/toolkit/lib64/libnvrtc.so" in found


def test_what_cannot_be_loaded_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    there = next(places())
    load = library.__wrapped__  # pyright: ignore[reportFunctionMemberAccess]
    # libm has none of its functions.
    monkeypatch.setattr(nvrtc_library, "places", lambda: ["/nowhere.so", "libm.so.6", there])
    assert load()._name == there
    monkeypatch.setattr(nvrtc_library, "places", lambda: iter(()))
    with pytest.raises(PolycError, match=r"error\[NoNVRTC\]: .*it is nowhere.*nvidia-cuda-nvrtc"):
        load()


def test_the_version_is_that_of_the_wheel() -> None:
    wheel = installed("nvidia-cuda-nvrtc")
    assert wheel is None or wheel.startswith("{}.{}.".format(*version()))


def test_what_it_refuses() -> None:
    with Program("", "a.cu") as program:
        assert not program.compile(("--no-such-option",))
        assert b"no-such-option" in program.read("ProgramLog")
    with pytest.raises(PolycError, match="nvrtcCompileProgram answered NVRTC_ERROR_INVALID_PROG"):
        call("nvrtcCompileProgram", None, 0, None)
