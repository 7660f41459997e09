// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @powers(%i: index = symbol M) threads 32 {
    %x = arith.constant 3 : i8
    // CHECK: %r = gpu.power %x, %x : i8
    %r = gpu.power %x, %x : i8
    %f = arith.constant -2.5 : f32
    // CHECK: %s = gpu.cut %f : i32
    // CHECK-NEXT: %u = gpu.cut %f unsigned {note = "kept"} : i32
    %s = gpu.cut %f : i32
    %u = gpu.cut %f unsigned {note = "kept"} : i32
    gpu.return
  }
}
