// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// Entries of a parameter file: as ops of any name, twice, and as inputs of the constant pool.

// CHECK: frontend.graph @parameters(%x: !frontend.tensor<[M, 8], f16>, %w: !frontend.tensor<[8, N], f16> {role = "param", storage = "const_pool", entry = "head"}) -> (A: !frontend.tensor<[M, 8], f16>, B: !frontend.tensor<[M, N], f16>) {
// CHECK-NEXT: %0 = frontend.parameter "layers.0/bias \22b\22" : !frontend.tensor<[8], f16>
// CHECK-NEXT: %1 = frontend.parameter "mask" {note = "kept"} : !frontend.tensor<[], i1>
// CHECK-NEXT: %2 = frontend.parameter "mask" : !frontend.tensor<[], i1>
frontend.graph @parameters(%x: !frontend.tensor<[M, 8], f16>, %w: !frontend.tensor<[8, N], f16> {role = "param", storage = "const_pool", entry = "head"}) -> (A: !frontend.tensor<[M, 8], f16>, B: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.parameter "layers.0/bias \"b\"" : !frontend.tensor<[8], f16>
  %1 = frontend.parameter "mask" {note = "kept"} : !frontend.tensor<[], i1>
  %2 = frontend.parameter "mask" : !frontend.tensor<[], i1>
  %3 = frontend.select %1, %x, %0 : (!frontend.tensor<[], i1>, !frontend.tensor<[M, 8], f16>, !frontend.tensor<[8], f16>) -> !frontend.tensor<[M, 8], f16>
  %4 = frontend.gemm %3, %w {acc = f32} : (!frontend.tensor<[M, 8], f16>, !frontend.tensor<[8, N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %3, %4 : !frontend.tensor<[M, 8], f16>, !frontend.tensor<[M, N], f16>
}
