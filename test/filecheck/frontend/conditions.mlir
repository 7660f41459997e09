// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// Relations, select, casts of conditions and constants; all broadcast right-aligned.

// CHECK: frontend.graph @conditions(%x: !frontend.tensor<[M, N], f16>, %w: !frontend.tensor<[N], f16>) -> (A: !frontend.tensor<[M, N], f16>, B: !frontend.tensor<[M, N], i1>) {
// CHECK-NEXT: %half = frontend.constant 0.5 : !frontend.tensor<[], f16>
// CHECK-NEXT: %none = frontend.constant -inf {note = "kept"} : !frontend.tensor<[], f16>
// CHECK-NEXT: %c = frontend.compare lt %x, %half : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[], f16>) -> !frontend.tensor<[M, N], i1>
// CHECK-NEXT: %s = frontend.select %c, %w, %none : (!frontend.tensor<[M, N], i1>, !frontend.tensor<[N], f16>, !frontend.tensor<[], f16>) -> !frontend.tensor<[M, N], f16>
// CHECK-NEXT: %f = frontend.cast %c : !frontend.tensor<[M, N], i1> -> !frontend.tensor<[M, N], f16>
// CHECK-NEXT: %g = frontend.elementwise gelu_tanh %f : !frontend.tensor<[M, N], f16>
// CHECK-NEXT: %h = frontend.elementwise mul %g, %s : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16>
// CHECK-NEXT: %b = frontend.cast %h : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], i1>
// CHECK-NEXT: %e = frontend.select %b, %b, %c : (!frontend.tensor<[M, N], i1>, !frontend.tensor<[M, N], i1>, !frontend.tensor<[M, N], i1>) -> !frontend.tensor<[M, N], i1>
// CHECK-NEXT: frontend.output %h, %e : !frontend.tensor<[M, N], f16>, !frontend.tensor<[M, N], i1>
frontend.graph @conditions(%x: !frontend.tensor<[M, N], f16>, %w: !frontend.tensor<[N], f16>) -> (A: !frontend.tensor<[M, N], f16>, B: !frontend.tensor<[M, N], i1>) {
  %half = frontend.constant 0.5 : !frontend.tensor<[], f16>
  %none = frontend.constant -inf {note = "kept"} : !frontend.tensor<[], f16>
  %c = frontend.compare lt %x, %half : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[], f16>) -> !frontend.tensor<[M, N], i1>
  %s = frontend.select %c, %w, %none : (!frontend.tensor<[M, N], i1>, !frontend.tensor<[N], f16>, !frontend.tensor<[], f16>) -> !frontend.tensor<[M, N], f16>
  %f = frontend.cast %c : !frontend.tensor<[M, N], i1> -> !frontend.tensor<[M, N], f16>
  %g = frontend.elementwise gelu_tanh %f : !frontend.tensor<[M, N], f16>
  %h = frontend.elementwise mul %g, %s : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16>
  %b = frontend.cast %h : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], i1>
  %e = frontend.select %b, %b, %c : (!frontend.tensor<[M, N], i1>, !frontend.tensor<[M, N], i1>, !frontend.tensor<[M, N], i1>) -> !frontend.tensor<[M, N], i1>
  frontend.output %h, %e : !frontend.tensor<[M, N], f16>, !frontend.tensor<[M, N], i1>
}
