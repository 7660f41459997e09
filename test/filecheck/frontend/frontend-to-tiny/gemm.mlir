// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny | polyc-opt | filecheck %s

// The product is reduce(sum, mul(expand, expand)) over [M, K, N]; the loads are widened once.

// CHECK: tiny.graph @gemm(%A: !tiny.tensor<[M, K], f16> {align = 16 : i64}, %B: !tiny.tensor<[K, N], f16>) -> (C: !tiny.tensor<[M, N], f16>) assuming (K >= 1) {
// CHECK-NEXT: [[a:%[A-Za-z_0-9]+]] = tiny.cast %A : !tiny.tensor<[M, K], f16> -> !tiny.tensor<[M, K], f32>
// CHECK-NEXT: [[b:%[A-Za-z_0-9]+]] = tiny.cast %B : !tiny.tensor<[K, N], f16> -> !tiny.tensor<[K, N], f32>
// CHECK-NEXT: [[ae:%[0-9]+]] = tiny.expand [[a]] dims [0, 1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, K, N], f32>
// CHECK-NEXT: [[be:%[0-9]+]] = tiny.expand [[b]] dims [1, 2] : !tiny.tensor<[K, N], f32> -> !tiny.tensor<[M, K, N], f32>
// CHECK-NEXT: [[t:%[0-9]+]] = tiny.binary mul [[ae]], [[be]] : !tiny.tensor<[M, K, N], f32>
// CHECK-NEXT: [[c:%[0-9]+]] = tiny.reduce sum [[t]] axes [1] : !tiny.tensor<[M, K, N], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: [[o:%[0-9]+]] = tiny.cast [[c]] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f16>
// CHECK-NEXT: tiny.output [[o]] : !tiny.tensor<[M, N], f16>
// CHECK-NEXT: }
frontend.graph @gemm(%A: !frontend.tensor<[M, K], f16> {align = 16}, %B: !frontend.tensor<[K, N], f16>)
    -> !frontend.tensor<[M, N], f16> assuming (K >= 1) {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %0 : !frontend.tensor<[M, N], f16>
}

// Transposed operands are permuted first; f32 operands and results need no cast.

// CHECK: tiny.graph @transposed
// CHECK-NEXT: [[at:%[0-9]+]] = tiny.permute %A perm [1, 0] : !tiny.tensor<[K, M], f32> -> !tiny.tensor<[M, K], f32>
// CHECK-NEXT: [[bt:%[0-9]+]] = tiny.permute %B perm [1, 0] : !tiny.tensor<[N, K], f32> -> !tiny.tensor<[K, N], f32>
// CHECK-NEXT: tiny.expand [[at]] dims [0, 1]
// CHECK-NEXT: tiny.expand [[bt]] dims [1, 2]
// CHECK-NEXT: tiny.binary mul
// CHECK-NEXT: [[c:%[0-9]+]] = tiny.reduce sum
// CHECK-NEXT: tiny.output [[c]]
frontend.graph @transposed(%A: !frontend.tensor<[K, M], f32>, %B: !frontend.tensor<[N, K], f32>) -> !frontend.tensor<[M, N], f32> {
  %0 = frontend.gemm %A, %B {acc = f32, transpose_a, transpose_b} : (!frontend.tensor<[K, M], f32>, !frontend.tensor<[N, K], f32>) -> !frontend.tensor<[M, N], f32>
  frontend.output %0 : !frontend.tensor<[M, N], f32>
}

// A computed operand is rounded to the operand type at the tensor core; a loaded one and one
// that the user has just cast are in that type already.

// CHECK: tiny.graph @computed_operand
// CHECK: [[p:%[0-9]+]] = tiny.reduce sum
// CHECK-NEXT: [[narrow:%[0-9]+]] = tiny.cast [[p]] : !tiny.tensor<[M, M], f32> -> !tiny.tensor<[M, M], f16>
// CHECK-NEXT: [[wide:%[0-9]+]] = tiny.cast [[narrow]] : !tiny.tensor<[M, M], f16> -> !tiny.tensor<[M, M], f32>
// CHECK-NEXT: tiny.expand [[wide]] dims [0, 1]
// CHECK-NEXT: tiny.expand %A_f32 dims [1, 2]
frontend.graph @computed_operand(%A: !frontend.tensor<[M, M], f16>) -> !frontend.tensor<[M, M], f16> {
  %0 = frontend.gemm %A, %A {acc = f32} : (!frontend.tensor<[M, M], f16>, !frontend.tensor<[M, M], f16>) -> !frontend.tensor<[M, M], f16>
  %1 = frontend.gemm %0, %A {acc = f32} : (!frontend.tensor<[M, M], f16>, !frontend.tensor<[M, M], f16>) -> !frontend.tensor<[M, M], f16>
  frontend.output %1 : !frontend.tensor<[M, M], f16>
}

// CHECK: tiny.graph @cast_operand
// CHECK-NEXT: [[narrow:%[0-9]+]] = tiny.cast %A : !tiny.tensor<[M, M], f32> -> !tiny.tensor<[M, M], bf16>
// CHECK-NEXT: [[wide:%[0-9]+]] = tiny.cast [[narrow]] : !tiny.tensor<[M, M], bf16> -> !tiny.tensor<[M, M], f32>
// CHECK-NEXT: tiny.expand [[wide]] dims [0, 1]
// CHECK-NEXT: tiny.expand [[wide]] dims [1, 2]
frontend.graph @cast_operand(%A: !frontend.tensor<[M, M], f32>) -> !frontend.tensor<[M, M], f32> {
  %0 = frontend.cast %A : !frontend.tensor<[M, M], f32> -> !frontend.tensor<[M, M], bf16>
  %1 = frontend.gemm %0, %0 {acc = f32} : (!frontend.tensor<[M, M], bf16>, !frontend.tensor<[M, M], bf16>) -> !frontend.tensor<[M, M], f32>
  frontend.output %1 : !frontend.tensor<[M, M], f32>
}
