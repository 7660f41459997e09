// RUN: polyc-opt %s -p gpu-lower-tile-ops | filecheck %s

// A thread fills its registers, and runs the body once a register at the place where the
// layout says that the register is.

gpu.module @m arch "sm_80" symbols [M, N] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%bias: !gpu.global<[N], f32> = tensor 0, %C: !gpu.global<[M, N], f32> = tensor 1, %m0: index = symbol M, %n0: index = symbol N) threads 32 {
    %x = arith.constant 1.0 : f32
    // CHECK: %acc = memref.alloca() : memref<4xf32, #gpu<space register>>
    %acc = gpu.fragment : !gpu.fragment<[8, 16], f32, #gpu.fragment_layout<threads 32, registers 4, affine_map<(t, r) -> (t floordiv 4, t mod 4 * 4 + r)>>>
    // CHECK: scf.for %r =
    // CHECK-NEXT: memref.store %x, %acc[%r]
    // CHECK-NEXT: } {unroll}
    gpu.fill %x, %acc : !gpu.fragment<[8, 16], f32, #gpu.fragment_layout<threads 32, registers 4, affine_map<(t, r) -> (t floordiv 4, t mod 4 * 4 + r)>>>
    // CHECK: scf.for [[R:%r_1]] =
    // CHECK-NEXT: [[ACC:%.*]] = memref.load %acc[%r_1]
    // CHECK-NEXT: [[N:%.*]] = affine.apply affine_map<(d0, d1)[s0] -> {{.*}}> (%thread, %r_1)[%n0]
    // CHECK-NEXT: [[BIAS:%.*]] = gpu.load_global %bias[[[N]] : index]
    // CHECK-NEXT: [[SUM:%.*]] = arith.addf [[ACC]], [[BIAS]] : f32
    // CHECK-NEXT: [[ROW:%.*]] = affine.apply affine_map<(d0)[s0] -> {{.*}}> (%thread)[%m0]
    // CHECK-NEXT: [[COLUMN:%.*]] = affine.apply affine_map<(d0, d1)[s0] -> {{.*}}> (%thread, %r_1)[%n0]
    // CHECK-NEXT: gpu.store_global [[SUM]], %C[[[ROW]], [[COLUMN]] : index, index]
    gpu.map %acc : !gpu.fragment<[8, 16], f32, #gpu.fragment_layout<threads 32, registers 4, affine_map<(t, r) -> (t floordiv 4, t mod 4 * 4 + r)>>> origin [%m0, %n0] ins(%bias : !gpu.global<[N], f32> affine_map<(i, j)[r, c] -> (c + j)>) outs(%C : !gpu.global<[M, N], f32> affine_map<(i, j)[r, c] -> (r + i, c + j)>) {
    ^bb0(%e : f32, %b : f32):
      %sum = arith.addf %e, %b : f32
      gpu.yield %sum : f32
    }
    gpu.return
  }
}
