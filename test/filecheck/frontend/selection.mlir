// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// Places of extremes, of any type of numbers.

// CHECK: %0 = frontend.arg_reduce max %x axis 1 : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M], i64>
// CHECK-NEXT: %1 = frontend.arg_reduce min %x axis 0 keepdims last {note = "kept"} : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[1, N], i32>
// CHECK-NEXT: %2 = frontend.arg_reduce max %i axis 0 last : !frontend.tensor<[N], ui64> -> !frontend.tensor<[], i64>
frontend.graph @places(%x: !frontend.tensor<[M, N], f16>, %i: !frontend.tensor<[N], ui64>) -> (!frontend.tensor<[M], i64>, !frontend.tensor<[1, N], i32>, !frontend.tensor<[], i64>) {
  %0 = frontend.arg_reduce max %x axis 1 : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M], i64>
  %1 = frontend.arg_reduce min %x axis 0 keepdims last {note = "kept"} : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[1, N], i32>
  %2 = frontend.arg_reduce max %i axis 0 last : !frontend.tensor<[N], ui64> -> !frontend.tensor<[], i64>
  frontend.output %0, %1, %2 : !frontend.tensor<[M], i64>, !frontend.tensor<[1, N], i32>, !frontend.tensor<[], i64>
}

// A sort gives all elements of an axis, or a number of the first.

// CHECK: %0, %1 = frontend.sort %x axis 1 : (!frontend.tensor<[M, N], bf16>) -> (!frontend.tensor<[M, N], bf16>, !frontend.tensor<[M, N], i64>)
// CHECK-NEXT: %2, %3 = frontend.sort %x axis 1 descending {note = "kept"} : (!frontend.tensor<[M, N], bf16>) -> (!frontend.tensor<[M, 8], bf16>, !frontend.tensor<[M, 8], i32>)
frontend.graph @sorts(%x: !frontend.tensor<[M, N], bf16>) -> (!frontend.tensor<[M, N], bf16>, !frontend.tensor<[M, 8], i32>) assuming (N >= 8) {
  %0, %1 = frontend.sort %x axis 1 : (!frontend.tensor<[M, N], bf16>) -> (!frontend.tensor<[M, N], bf16>, !frontend.tensor<[M, N], i64>)
  %2, %3 = frontend.sort %x axis 1 descending {note = "kept"} : (!frontend.tensor<[M, N], bf16>) -> (!frontend.tensor<[M, 8], bf16>, !frontend.tensor<[M, 8], i32>)
  frontend.output %0, %3 : !frontend.tensor<[M, N], bf16>, !frontend.tensor<[M, 8], i32>
}
