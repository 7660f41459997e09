"""polyc: a dialect toolkit from tensor programs to CUDA C for SM80 and SM90.

    @polyc.jit
    def layer(x: polyc.Tensor["M", "K", "f16"], w: polyc.Tensor["N", "K", "f16"]):
        return polyc.gelu(x @ w.T)

Everything that is offered here is imported when it is first asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from xdsl.ir import Operation

    from polyc.dialects.common.diagnostic import PolycError as PolycError
    from polyc.importers.imported import Imported as Imported
    from polyc.importers.onnx import from_onnx as from_onnx
    from polyc.importers.registry import converter as converter
    from polyc.importers.torch import from_exported as from_exported
    from polyc.runtime.const_pool import Params as Params
    from polyc.runtime.program import Program
    from polyc.runtime.safetensors import read_params as read_params
    from polyc.runtime.safetensors import write_params as write_params
    from polyc.tools.jit.autotune import autotune as autotune
    from polyc.tools.jit.compile import compile as compile
    from polyc.tools.jit.compile import jit as jit
    from polyc.tools.jit.compile import par_compile as par_compile
    from polyc.tools.jit.compiled import Compiled as Compiled
    from polyc.tools.jit.function import Jit as Jit
    from polyc.tools.jit.torch_backend import torch_backend as torch_backend
    from polyc.tools.jit.torch_backend import torch_reports as torch_reports
    from polyc.tools.jit.torch_op import torch_op as torch_op
    from polyc.trace import random as random
    from polyc.trace.builder import Builder as Builder
    from polyc.trace.functions import abs as abs
    from polyc.trace.functions import acos as acos
    from polyc.trace.functions import acosh as acosh
    from polyc.trace.functions import all as all
    from polyc.trace.functions import any as any
    from polyc.trace.functions import arange as arange
    from polyc.trace.functions import argmax as argmax
    from polyc.trace.functions import argmin as argmin
    from polyc.trace.functions import argsort as argsort
    from polyc.trace.functions import asin as asin
    from polyc.trace.functions import asinh as asinh
    from polyc.trace.functions import atan as atan
    from polyc.trace.functions import atan2 as atan2
    from polyc.trace.functions import atanh as atanh
    from polyc.trace.functions import attention as attention
    from polyc.trace.functions import cast as cast
    from polyc.trace.functions import cbrt as cbrt
    from polyc.trace.functions import ceil as ceil
    from polyc.trace.functions import concat as concat
    from polyc.trace.functions import constant as constant
    from polyc.trace.functions import cos as cos
    from polyc.trace.functions import cosh as cosh
    from polyc.trace.functions import elu as elu
    from polyc.trace.functions import erf as erf
    from polyc.trace.functions import erfc as erfc
    from polyc.trace.functions import exp as exp
    from polyc.trace.functions import exp2 as exp2
    from polyc.trace.functions import expand as expand
    from polyc.trace.functions import expm1 as expm1
    from polyc.trace.functions import floor as floor
    from polyc.trace.functions import fmod as fmod
    from polyc.trace.functions import full as full
    from polyc.trace.functions import gelu as gelu
    from polyc.trace.functions import hard_sigmoid as hard_sigmoid
    from polyc.trace.functions import hard_swish as hard_swish
    from polyc.trace.functions import iota as iota
    from polyc.trace.functions import isfinite as isfinite
    from polyc.trace.functions import isinf as isinf
    from polyc.trace.functions import isnan as isnan
    from polyc.trace.functions import layer_norm as layer_norm
    from polyc.trace.functions import linear as linear
    from polyc.trace.functions import log as log
    from polyc.trace.functions import log1p as log1p
    from polyc.trace.functions import log2 as log2
    from polyc.trace.functions import log10 as log10
    from polyc.trace.functions import log_sigmoid as log_sigmoid
    from polyc.trace.functions import log_softmax as log_softmax
    from polyc.trace.functions import logsumexp as logsumexp
    from polyc.trace.functions import matmul as matmul
    from polyc.trace.functions import max as max
    from polyc.trace.functions import maximum as maximum
    from polyc.trace.functions import mean as mean
    from polyc.trace.functions import min as min
    from polyc.trace.functions import minimum as minimum
    from polyc.trace.functions import mish as mish
    from polyc.trace.functions import mod as mod
    from polyc.trace.functions import norm as norm
    from polyc.trace.functions import pad as pad
    from polyc.trace.functions import parameter as parameter
    from polyc.trace.functions import permute as permute
    from polyc.trace.functions import pow as pow
    from polyc.trace.functions import prod as prod
    from polyc.trace.functions import reciprocal as reciprocal
    from polyc.trace.functions import relu as relu
    from polyc.trace.functions import relu6 as relu6
    from polyc.trace.functions import reshape as reshape
    from polyc.trace.functions import rms_norm as rms_norm
    from polyc.trace.functions import round as round
    from polyc.trace.functions import rsqrt as rsqrt
    from polyc.trace.functions import selu as selu
    from polyc.trace.functions import sigmoid as sigmoid
    from polyc.trace.functions import sign as sign
    from polyc.trace.functions import silu as silu
    from polyc.trace.functions import sin as sin
    from polyc.trace.functions import sinh as sinh
    from polyc.trace.functions import softmax as softmax
    from polyc.trace.functions import softplus as softplus
    from polyc.trace.functions import softsign as softsign
    from polyc.trace.functions import sort as sort
    from polyc.trace.functions import split as split
    from polyc.trace.functions import sqrt as sqrt
    from polyc.trace.functions import stack as stack
    from polyc.trace.functions import sum as sum
    from polyc.trace.functions import tan as tan
    from polyc.trace.functions import tanh as tanh
    from polyc.trace.functions import topk as topk
    from polyc.trace.functions import transpose as transpose
    from polyc.trace.functions import trunc as trunc
    from polyc.trace.functions import var as var
    from polyc.trace.functions import where as where
    from polyc.trace.gathers import embedding as embedding
    from polyc.trace.gathers import gather_nd as gather_nd
    from polyc.trace.gathers import scatter as scatter
    from polyc.trace.gathers import scatter_along_axis as scatter_along_axis
    from polyc.trace.gathers import scatter_nd as scatter_nd
    from polyc.trace.gathers import take as take
    from polyc.trace.gathers import take_along_axis as take_along_axis
    from polyc.trace.random import dropout as dropout
    from polyc.trace.scans import cummax as cummax
    from polyc.trace.scans import cummin as cummin
    from polyc.trace.scans import cumprod as cumprod
    from polyc.trace.scans import cumsum as cumsum
    from polyc.trace.values import Tensor as Tensor
    from polyc.trace.values import Value as Value
    from polyc.trace.windows import adaptive_avg_pool as adaptive_avg_pool
    from polyc.trace.windows import adaptive_max_pool as adaptive_max_pool
    from polyc.trace.windows import avg_pool as avg_pool
    from polyc.trace.windows import conv1d as conv1d
    from polyc.trace.windows import conv2d as conv2d
    from polyc.trace.windows import conv3d as conv3d
    from polyc.trace.windows import conv_transpose1d as conv_transpose1d
    from polyc.trace.windows import conv_transpose2d as conv_transpose2d
    from polyc.trace.windows import conv_transpose3d as conv_transpose3d
    from polyc.trace.windows import grid_sample as grid_sample
    from polyc.trace.windows import lp_pool as lp_pool
    from polyc.trace.windows import max_pool as max_pool
    from polyc.trace.windows import max_pool_with_indices as max_pool_with_indices
    from polyc.trace.windows import resize as resize
    from polyc.trace.windows import sum_pool as sum_pool

__version__ = "0.1.0"

_OFFERED = {
    "PolycError": "dialects.common.diagnostic",
    "Imported": "importers.imported",
    "converter": "importers.registry",
    "from_exported": "importers.torch",
    "from_onnx": "importers.onnx",
    "Params": "runtime.const_pool",
    "read_params": "runtime.safetensors",
    "write_params": "runtime.safetensors",
    "jit": "tools.jit.compile",
    "compile": "tools.jit.compile",
    "par_compile": "tools.jit.compile",
    "autotune": "tools.jit.autotune",
    "torch_op": "tools.jit.torch_op",
    "torch_backend": "tools.jit.torch_backend",
    "torch_reports": "tools.jit.torch_backend",
    "Compiled": "tools.jit.compiled",
    "Jit": "tools.jit.function",
    "Tensor": "trace.annotations",
    "Builder": "trace.builder",
    "Value": "trace.values",
    "dropout": "trace.random",
    **dict.fromkeys(
        (
            "abs",
            "arange",
            "argmax",
            "argmin",
            "argsort",
            "acos",
            "acosh",
            "all",
            "any",
            "asin",
            "asinh",
            "atan",
            "atan2",
            "atanh",
            "attention",
            "cast",
            "cbrt",
            "ceil",
            "concat",
            "constant",
            "cos",
            "cosh",
            "elu",
            "erf",
            "erfc",
            "exp",
            "exp2",
            "expand",
            "expm1",
            "floor",
            "fmod",
            "full",
            "gelu",
            "iota",
            "hard_sigmoid",
            "hard_swish",
            "isfinite",
            "isinf",
            "isnan",
            "layer_norm",
            "linear",
            "log",
            "log10",
            "log1p",
            "log2",
            "log_sigmoid",
            "log_softmax",
            "logsumexp",
            "matmul",
            "max",
            "maximum",
            "mean",
            "min",
            "minimum",
            "mish",
            "mod",
            "norm",
            "pad",
            "parameter",
            "permute",
            "pow",
            "prod",
            "reciprocal",
            "relu",
            "relu6",
            "reshape",
            "rms_norm",
            "round",
            "rsqrt",
            "selu",
            "sigmoid",
            "sign",
            "silu",
            "sin",
            "sinh",
            "softmax",
            "softplus",
            "softsign",
            "sort",
            "split",
            "sqrt",
            "stack",
            "sum",
            "tan",
            "tanh",
            "topk",
            "transpose",
            "trunc",
            "var",
            "where",
        ),
        "trace.functions",
    ),
    **dict.fromkeys(("cummax", "cummin", "cumprod", "cumsum"), "trace.scans"),
    **dict.fromkeys(
        (
            "adaptive_avg_pool",
            "adaptive_max_pool",
            "avg_pool",
            "conv1d",
            "conv_transpose1d",
            "conv_transpose2d",
            "conv_transpose3d",
            "conv2d",
            "conv3d",
            "grid_sample",
            "lp_pool",
            "max_pool",
            "max_pool_with_indices",
            "resize",
            "sum_pool",
        ),
        "trace.windows",
    ),
    **dict.fromkeys(
        (
            "embedding",
            "gather_nd",
            "scatter",
            "scatter_along_axis",
            "scatter_nd",
            "take",
            "take_along_axis",
        ),
        "trace.gathers",
    ),
}
"""Where each name is that is imported when it is asked for."""

_MODULES = {"random": "trace.random"}
"""The modules that are offered whole, likewise."""


def load(
    source: str | Path | Operation,
    arch: str | None = None,
    name: str | None = None,
    kernels: str | Path | None = None,
    sizes: Mapping[str, int] | None = None,
    records: str | Path | None = None,
    params: Any = None,
    debug: bool = False,
) -> Program:
    """Compile a program from its text, its file or its module: see ``polyc.tools.load``."""
    # Imported here, so that the dialects alone stay quick to import.
    from polyc.tools.load import load as loaded

    return loaded(source, arch, name, kernels, sizes, records, params, debug)


def __getattr__(name: str) -> object:
    """A name of ``_OFFERED``, imported now."""
    if (place := _OFFERED.get(name)) is not None:
        from importlib import import_module

        found = globals()[name] = getattr(import_module(f"polyc.{place}"), name)
        return found
    if (place := _MODULES.get(name)) is not None:
        from importlib import import_module

        found = globals()[name] = import_module(f"polyc.{place}")
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_OFFERED, *_MODULES})
