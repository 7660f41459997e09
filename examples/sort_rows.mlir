// Rows of integers in their order: a block sorts one in shared memory, or where it lies, if no shared memory holds it.
frontend.graph @sort_rows(%X: !frontend.tensor<[M, N], i64>) -> (Y: !frontend.tensor<[M, N], i64>) {
  %0, %1 = frontend.sort %X axis 1
      : (!frontend.tensor<[M, N], i64>) -> (!frontend.tensor<[M, N], i64>, !frontend.tensor<[M, N], i64>)
  frontend.output %0 : !frontend.tensor<[M, N], i64>
}
