// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// Seed and offset are integers of rank 0 of any type.

// CHECK: %0 = frontend.random bits %seed, %offset : (!frontend.tensor<[], i64>, !frontend.tensor<[], ui8>) -> !frontend.tensor<[M, N], ui32>
// CHECK-NEXT: %1 = frontend.random uniform %seed, %seed : (!frontend.tensor<[], i64>, !frontend.tensor<[], i64>) -> !frontend.tensor<[M, N], bf16>
// CHECK-NEXT: %2 = frontend.random normal %seed, %offset {note = "kept"} : (!frontend.tensor<[], i64>, !frontend.tensor<[], ui8>) -> !frontend.tensor<[], f32>
// CHECK-NEXT: %3 = frontend.random bernoulli %seed, %offset p 0.25 : (!frontend.tensor<[], i64>, !frontend.tensor<[], ui8>) -> !frontend.tensor<[M, N], i1>
// CHECK-NEXT: %4 = frontend.dropout %x, %seed, %offset p 0.1 {note = "kept"} : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[], i64>, !frontend.tensor<[], ui8>) -> !frontend.tensor<[M, N], f16>
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>, %seed: !frontend.tensor<[], i64>, %offset: !frontend.tensor<[], ui8>) -> !frontend.tensor<[M, N], f16> {
  %0 = frontend.random bits %seed, %offset : (!frontend.tensor<[], i64>, !frontend.tensor<[], ui8>) -> !frontend.tensor<[M, N], ui32>
  %1 = frontend.random uniform %seed, %seed : (!frontend.tensor<[], i64>, !frontend.tensor<[], i64>) -> !frontend.tensor<[M, N], bf16>
  %2 = frontend.random normal %seed, %offset {note = "kept"} : (!frontend.tensor<[], i64>, !frontend.tensor<[], ui8>) -> !frontend.tensor<[], f32>
  %3 = frontend.random bernoulli %seed, %offset p 0.25 : (!frontend.tensor<[], i64>, !frontend.tensor<[], ui8>) -> !frontend.tensor<[M, N], i1>
  %4 = frontend.dropout %x, %seed, %offset p 0.1 {note = "kept"} : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[], i64>, !frontend.tensor<[], ui8>) -> !frontend.tensor<[M, N], f16>
  frontend.output %4 : !frontend.tensor<[M, N], f16>
}
