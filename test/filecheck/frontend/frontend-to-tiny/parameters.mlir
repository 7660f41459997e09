// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny --check-each | polyc-opt | filecheck %s

// Entries of a parameter file are inputs behind the user's own, one an entry (S12.2): `a.b` and `a/b` have
// names of their own, and `w` is the input that says so.

// CHECK: tiny.graph @f(%x: !tiny.tensor<[4], f32>, %a_b: !tiny.tensor<[4], f32> {storage = "const_pool", entry = "w"}, %a_b_2: !tiny.tensor<[4], f32> {role = "param", storage = "const_pool", entry = "a.b"}, %a_b_3: !tiny.tensor<[4], f32> {role = "param", storage = "const_pool", entry = "a/b"}, %p0: !tiny.tensor<[4], f32> {role = "param", storage = "const_pool", entry = "0"}) -> (C: !tiny.tensor<[4], f32>) {
// CHECK-NEXT: %0 = tiny.binary add %x, %a_b_2 : !tiny.tensor<[4], f32>
// CHECK-NEXT: %1 = tiny.binary add %0, %a_b_3 : !tiny.tensor<[4], f32>
// CHECK-NEXT: %2 = tiny.binary add %1, %a_b : !tiny.tensor<[4], f32>
// CHECK-NEXT: %3 = tiny.binary mul %2, %a_b_2 : !tiny.tensor<[4], f32>
// CHECK-NEXT: %4 = tiny.binary mul %3, %p0 : !tiny.tensor<[4], f32>
frontend.graph @f(%x: !frontend.tensor<[4], f32>, %a_b: !frontend.tensor<[4], f32> {storage = "const_pool", entry = "w"}) -> !frontend.tensor<[4], f32> {
  %p = frontend.parameter "a.b" : !frontend.tensor<[4], f32>
  %0 = frontend.elementwise add %x, %p : (!frontend.tensor<[4], f32>, !frontend.tensor<[4], f32>) -> !frontend.tensor<[4], f32>
  %q = frontend.parameter "a/b" : !frontend.tensor<[4], f32>
  %1 = frontend.elementwise add %0, %q : (!frontend.tensor<[4], f32>, !frontend.tensor<[4], f32>) -> !frontend.tensor<[4], f32>
  %w = frontend.parameter "w" : !frontend.tensor<[4], f32>
  %2 = frontend.elementwise add %1, %w : (!frontend.tensor<[4], f32>, !frontend.tensor<[4], f32>) -> !frontend.tensor<[4], f32>
  %r = frontend.parameter "a.b" : !frontend.tensor<[4], f32>
  %3 = frontend.elementwise mul %2, %r : (!frontend.tensor<[4], f32>, !frontend.tensor<[4], f32>) -> !frontend.tensor<[4], f32>
  %s = frontend.parameter "0" : !frontend.tensor<[4], f32>
  %4 = frontend.elementwise mul %3, %s : (!frontend.tensor<[4], f32>, !frontend.tensor<[4], f32>) -> !frontend.tensor<[4], f32>
  frontend.output %4 : !frontend.tensor<[4], f32>
}
