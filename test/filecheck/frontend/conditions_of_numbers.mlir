// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s --check-prefix TINY

// What a number is, as a condition; all and any of conditions; a product.

// CHECK: frontend.graph @classified
// CHECK-NEXT: %n = frontend.classify isnan %x : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], i1>
// CHECK-NEXT: %f = frontend.classify isfinite %x {note = "kept"} : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], i1>
// CHECK-NEXT: %i = frontend.classify isinf %x : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], i1>
// CHECK-NEXT: %some = frontend.reduce any %n axes [1] : !frontend.tensor<[M, N], i1> -> !frontend.tensor<[M], i1>
// CHECK-NEXT: %every = frontend.reduce all %f axes [0] keepdims : !frontend.tensor<[M, N], i1> -> !frontend.tensor<[1, N], i1>
// CHECK-NEXT: %p = frontend.reduce prod %x axes [0, 1] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[], f16>

// TINY: tiny.graph @classified
// TINY-NEXT: %x_f32 = tiny.cast %x
// TINY-NEXT: %n = tiny.compare ne %x_f32, %x_f32 : !tiny.tensor<[M, N], f32>
// TINY: [[size:%[0-9]+]] = tiny.unary abs %x_f32
// TINY: %f = tiny.compare lt [[size]], {{%[0-9]+}}
// TINY: %i = tiny.compare eq {{%[0-9]+}}, {{%[0-9]+}}
// TINY: [[one:%[0-9]+]] = tiny.select %n, {{%[0-9]+}}, {{%[0-9]+}} : !tiny.tensor<[M, N], f32>
// TINY: [[most:%[0-9]+]] = tiny.reduce max [[one]] axes [1]
// TINY: %some = tiny.compare gt [[most]], {{%[0-9]+}} : !tiny.tensor<[M], f32>
// TINY: tiny.reduce min {{%[0-9]+}} axes [0]
// TINY: %every = tiny.compare gt {{%[0-9]+}}, {{%[0-9]+}} : !tiny.tensor<[1, N], f32>
// TINY: tiny.reduce prod %x_f32 axes [0, 1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[], f32>
frontend.graph @classified(%x: !frontend.tensor<[M, N], f16>)
    -> (!frontend.tensor<[M], i1>, !frontend.tensor<[1, N], i1>, !frontend.tensor<[], f16>, !frontend.tensor<[M, N], i1>) {
  %n = frontend.classify isnan %x : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], i1>
  %f = frontend.classify isfinite %x {note = "kept"} : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], i1>
  %i = frontend.classify isinf %x : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], i1>
  %some = frontend.reduce any %n axes [1] : !frontend.tensor<[M, N], i1> -> !frontend.tensor<[M], i1>
  %every = frontend.reduce all %f axes [0] keepdims : !frontend.tensor<[M, N], i1> -> !frontend.tensor<[1, N], i1>
  %p = frontend.reduce prod %x axes [0, 1] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[], f16>
  frontend.output %some, %every, %p, %i : !frontend.tensor<[M], i1>, !frontend.tensor<[1, N], i1>, !frontend.tensor<[], f16>, !frontend.tensor<[M, N], i1>
}
