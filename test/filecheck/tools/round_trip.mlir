// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-debuginfo | filecheck %s --check-prefix=LOC
// CHECK: arith.constant 1 : i32
// LOC: arith.constant 1 : i32 loc("{{.*}}round_trip.mlir":5:1)
%0 = arith.constant 1 : i32
