// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// CHECK: tiny.graph @integers
tiny.graph @integers(%x: !tiny.tensor<[N], ui16>) -> !tiny.tensor<[N], i8> {
  // CHECK-NEXT: %0 = tiny.constant 65535 : !tiny.tensor<[], ui16>
  %0 = tiny.constant 65535 : !tiny.tensor<[], ui16>
  // CHECK-NEXT: %1 = tiny.iota : !tiny.tensor<[N], ui16>
  %1 = tiny.iota : !tiny.tensor<[N], ui16>
  // CHECK-NEXT: %2 = tiny.binary mod %x, %1 : !tiny.tensor<[N], ui16>
  %2 = tiny.binary mod %x, %1 : !tiny.tensor<[N], ui16>
  // CHECK-NEXT: %3 = tiny.mask %2 where affine_set<(d0)[s0] : (d0 >= 0)> fill 7 : !tiny.tensor<[N], ui16> -> !tiny.tensor<[N], ui16>
  %3 = tiny.mask %2 where affine_set<(d0)[s0] : (d0 >= 0)> fill 7 : !tiny.tensor<[N], ui16> -> !tiny.tensor<[N], ui16>
  // CHECK-NEXT: %4 = tiny.compare ge %3, %1 : !tiny.tensor<[N], ui16>
  %4 = tiny.compare ge %3, %1 : !tiny.tensor<[N], ui16>
  // CHECK-NEXT: %5 = tiny.binary xor %4, %4 : !tiny.tensor<[N], i1>
  %5 = tiny.binary xor %4, %4 : !tiny.tensor<[N], i1>
  // CHECK-NEXT: %6 = tiny.dim N : !tiny.tensor<[], i64>
  %6 = tiny.dim N : !tiny.tensor<[], i64>
  // CHECK-NEXT: %7 = tiny.cast %3 : !tiny.tensor<[N], ui16> -> !tiny.tensor<[N], i8>
  %7 = tiny.cast %3 : !tiny.tensor<[N], ui16> -> !tiny.tensor<[N], i8>
  tiny.output %7 : !tiny.tensor<[N], i8>
}
