"""Memory as kernels see it: what a tensor map reads."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polyc.playback.gpu.storage import GlobalTensor, TensorMap


@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.tuples(st.integers(-6, 12), st.integers(-6, 12)),
)
def test_boxes_are_zero_outside_the_tensor(
    shape: tuple[int, int], box: tuple[int, int], start: tuple[int, int]
) -> None:
    tensor = np.arange(1, shape[0] * shape[1] + 1, dtype=np.float32).reshape(shape)
    data, elements, _ = TensorMap(GlobalTensor("t", tensor, 0, "input"), box, 0).box_at(start)
    wanted = np.zeros(box, np.float32)
    for i in range(box[0]):
        for j in range(box[1]):
            r, c = start[0] + i, start[1] + j
            if 0 <= r < shape[0] and 0 <= c < shape[1]:
                wanted[i, j] = tensor[r, c]
    np.testing.assert_array_equal(data.view(np.float32).reshape(box), wanted)
    assert elements.size == np.count_nonzero(wanted)
