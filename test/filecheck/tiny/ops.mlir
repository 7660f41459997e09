// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// A matrix product with its epilogue: movement, mul, reduce.

// CHECK: tiny.graph @gemm(%A: !tiny.tensor<[M, K], f16>, %B: !tiny.tensor<[N, K], f16>) -> (C: !tiny.tensor<[M, N], f16>) assuming (K mod 8 == 0) {
// CHECK-NEXT: %a = tiny.cast %A : !tiny.tensor<[M, K], f16> -> !tiny.tensor<[M, K], f32>
// CHECK-NEXT: %b = tiny.cast %B : !tiny.tensor<[N, K], f16> -> !tiny.tensor<[N, K], f32>
// CHECK-NEXT: %bt = tiny.permute %b perm [1, 0] : !tiny.tensor<[N, K], f32> -> !tiny.tensor<[K, N], f32>
// CHECK-NEXT: %ae = tiny.expand %a dims [0, 1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, K, N], f32>
// CHECK-NEXT: %be = tiny.expand %bt dims [1, 2] : !tiny.tensor<[K, N], f32> -> !tiny.tensor<[M, K, N], f32>
// CHECK-NEXT: %t = tiny.binary mul %ae, %be : !tiny.tensor<[M, K, N], f32>
// CHECK-NEXT: %c = tiny.reduce sum %t axes [1] : !tiny.tensor<[M, K, N], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %o = tiny.cast %c : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f16>
// CHECK-NEXT: tiny.output %o : !tiny.tensor<[M, N], f16>
tiny.graph @gemm(%A: !tiny.tensor<[M, K], f16>, %B: !tiny.tensor<[N, K], f16>) -> !tiny.tensor<[M, N], f16> assuming (K mod 8 == 0) {
  %a = tiny.cast %A : !tiny.tensor<[M, K], f16> -> !tiny.tensor<[M, K], f32>
  %b = tiny.cast %B : !tiny.tensor<[N, K], f16> -> !tiny.tensor<[N, K], f32>
  %bt = tiny.permute %b perm [1, 0] : !tiny.tensor<[N, K], f32> -> !tiny.tensor<[K, N], f32>
  %ae = tiny.expand %a dims [0, 1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, K, N], f32>
  %be = tiny.expand %bt dims [1, 2] : !tiny.tensor<[K, N], f32> -> !tiny.tensor<[M, K, N], f32>
  %t = tiny.binary mul %ae, %be : !tiny.tensor<[M, K, N], f32>
  %c = tiny.reduce sum %t axes [1] : !tiny.tensor<[M, K, N], f32> -> !tiny.tensor<[M, N], f32>
  %o = tiny.cast %c : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f16>
  tiny.output %o : !tiny.tensor<[M, N], f16>
}

// CHECK: tiny.graph @select
// CHECK-NEXT: %zero = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %z = tiny.expand %zero dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %p = tiny.compare lt %x, %z : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %e = tiny.unary exp %x {note = "kept"} : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %s = tiny.select %p, %e, %x : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %m = tiny.reduce max %s axes [0, 1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[], f32>
// CHECK-NEXT: tiny.output %m : !tiny.tensor<[], f32>
tiny.graph @select(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[], f32> {
  %zero = tiny.constant 0 : !tiny.tensor<[], f32>
  %z = tiny.expand %zero dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[M, N], f32>
  %p = tiny.compare lt %x, %z : !tiny.tensor<[M, N], f32>
  %e = tiny.unary exp %x {note = "kept"} : !tiny.tensor<[M, N], f32>
  %s = tiny.select %p, %e, %x : !tiny.tensor<[M, N], f32>
  %m = tiny.reduce max %s axes [0, 1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[], f32>
  tiny.output %m : !tiny.tensor<[], f32>
}

// Constants print the shortest decimals that read back as the same f32.

// CHECK: tiny.graph @constants
// CHECK-NEXT: tiny.constant -0.1 : !tiny.tensor<[], f32>
// CHECK-NEXT: tiny.constant -0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: tiny.constant 0.70710677 : !tiny.tensor<[], f32>
// CHECK-NEXT: tiny.constant 1.0e+30 : !tiny.tensor<[], f32>
// CHECK-NEXT: tiny.constant inf : !tiny.tensor<[], f32>
// CHECK-NEXT: tiny.constant -inf : !tiny.tensor<[], f32>
// CHECK-NEXT: tiny.constant nan : !tiny.tensor<[], f32>
tiny.graph @constants(%x: !tiny.tensor<[], f32>) -> !tiny.tensor<[], f32> {
  %0 = tiny.constant -0.1 : !tiny.tensor<[], f32>
  %1 = tiny.constant -0.0 : !tiny.tensor<[], f32>
  %2 = tiny.constant 0.70710678118654752 : !tiny.tensor<[], f32>
  %3 = tiny.constant 1.0e30 : !tiny.tensor<[], f32>
  %4 = tiny.constant inf : !tiny.tensor<[], f32>
  %5 = tiny.constant -inf : !tiny.tensor<[], f32>
  %6 = tiny.constant nan : !tiny.tensor<[], f32>
  tiny.output %0 : !tiny.tensor<[], f32>
}

// Where equal sizes differ in text, each type is written.

// CHECK: tiny.graph @equal_sizes
// CHECK-NEXT: tiny.binary add %x, %y : (!tiny.tensor<[K], f32>, !tiny.tensor<[2 * (K floordiv 2)], f32>) -> !tiny.tensor<[K], f32>
tiny.graph @equal_sizes(%x: !tiny.tensor<[K], f32>, %y: !tiny.tensor<[2 * (K floordiv 2)], f32>) -> !tiny.tensor<[K], f32> assuming (K mod 2 == 0) {
  %0 = tiny.binary add %x, %y : (!tiny.tensor<[K], f32>, !tiny.tensor<[2 * (K floordiv 2)], f32>) -> !tiny.tensor<[K], f32>
  tiny.output %0 : !tiny.tensor<[K], f32>
}

// A constant size 1 stretches to any size.

// CHECK: tiny.expand %x dims [0, 2] : !tiny.tensor<[1, N], f32> -> !tiny.tensor<[M, 4, N], f32>
tiny.graph @stretch(%x: !tiny.tensor<[1, N], f32>) -> !tiny.tensor<[M, 4, N], f32> {
  %0 = tiny.expand %x dims [0, 2] : !tiny.tensor<[1, N], f32> -> !tiny.tensor<[M, 4, N], f32>
  tiny.output %0 : !tiny.tensor<[M, 4, N], f32>
}

// A computed value of f32 may say in which type it is stored between two kernels.

// CHECK: tiny.graph @own
// CHECK-NEXT: %e = tiny.unary exp %x own f16 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %a = tiny.binary add %e, %x own bf16 {note = "kept"} : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %p = tiny.compare lt %x, %a : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %s = tiny.select %p, %e, %a own f16 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %m = tiny.reduce max %s axes [0] own f16 {note = "kept"} : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[N], f32>
tiny.graph @own(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[N], f32> {
  %e = tiny.unary exp %x own f16 : !tiny.tensor<[M, N], f32>
  %a = tiny.binary add %e, %x own bf16 {note = "kept"} : !tiny.tensor<[M, N], f32>
  %p = tiny.compare lt %x, %a : !tiny.tensor<[M, N], f32>
  %s = tiny.select %p, %e, %a own f16 : !tiny.tensor<[M, N], f32>
  %m = tiny.reduce max %s axes [0] own f16 {note = "kept"} : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[N], f32>
  tiny.output %m : !tiny.tensor<[N], f32>
}
