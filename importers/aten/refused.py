"""Ops of ATen that no graph has, and why: what a diagnostic says of them."""

from __future__ import annotations

_RANDOM = (
    "its numbers are random, and a graph's come of a seed that calls give; draw them outside and "
    "make them an input"
)
_OF_DATA = (
    "how many elements it gives is data, and a graph's sizes are those of its inputs; use "
    "torch.where, or keep it outside of the model"
)
_FACTORS = "no op factors a matrix; keep it outside of the model, or compute its result beforehand"
_TRAINED = "it keeps statistics of training; export the model in eval mode"

WHY: dict[str, str] = {
    **dict.fromkeys(
        (
            *("rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm"),
            *("bernoulli", "multinomial", "normal", "normal_functional", "uniform", "poisson"),
            *("exponential", "geometric", "cauchy", "log_normal", "random", "binomial"),
            *("_standard_gamma", "_sample_dirichlet", "rrelu_with_noise_functional"),
        ),
        _RANDOM,
    ),
    **dict.fromkeys(
        (
            *(
                "nonzero",
                "nonzero_static",
                "masked_select",
                "bincount",
                "argwhere",
                "where.default",
            ),
            *("_unique", "_unique2", "unique_dim", "unique_consecutive", "combinations"),
            *(
                "unique_dim_consecutive",
                "repeat_interleave.Tensor",
                "repeat_interleave.self_Tensor",
            ),
        ),
        _OF_DATA,
    ),
    **dict.fromkeys(
        ("item", "_local_scalar_dense", "equal"),
        "it reads a number of a tensor while the model runs; compute with the tensor",
    ),
    **dict.fromkeys(
        (
            *("linalg_cholesky", "linalg_cholesky_ex", "cholesky", "linalg_det", "_linalg_det"),
            *("linalg_eig", "_linalg_eigh", "linalg_eigh", "linalg_eigvals", "linalg_eigvalsh"),
            *("linalg_inv", "linalg_inv_ex", "inverse", "linalg_lu", "linalg_lu_factor"),
            *("_lu_with_info", "linalg_lu_factor_ex", "linalg_lstsq", "linalg_pinv", "linalg_qr"),
            *("linalg_slogdet", "_linalg_slogdet", "linalg_solve", "_linalg_solve_ex", "logdet"),
            *("linalg_solve_triangular", "linalg_svd", "_linalg_svd", "linalg_svdvals", "svd"),
            *("triangular_solve", "linalg_matrix_exp", "matrix_exp", "geqrf", "lu_unpack"),
        ),
        _FACTORS,
    ),
    **dict.fromkeys(
        (
            *("_native_batch_norm_legit_functional", "_native_batch_norm_legit"),
            *("native_batch_norm", "_batch_norm_with_update", "batch_norm"),
            *("_batch_norm_with_update_functional",),
        ),
        _TRAINED,
    ),
}
"""The reason by an op's name without ``aten.``, with its overload or without."""


def why(name: str) -> str | None:
    """Why no graph has an op of a name such as ``aten.nonzero.default``; None of others."""
    base = name.removeprefix("aten.")
    return WHY.get(base, WHY.get(base.partition(".")[0]))
