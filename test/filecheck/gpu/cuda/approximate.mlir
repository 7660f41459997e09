// RUN: polyc-opt %s -t cuda | filecheck %s

// exp2 is one instruction where the op allows an approximation, and the library's otherwise; so is
// one over a number.
// CHECK: float exp2_approx(float x) {
// CHECK: asm("ex2.approx.ftz.f32 %0, %1;"
// CHECK: float reciprocal_approx(float x) {
// CHECK: asm("rcp.approx.f32 %0, %1;"
// CHECK: = exp2f(x
// CHECK: = exp2_approx(
// CHECK: = 1.0f / near
// CHECK: = reciprocal_approx(
// CHECK: = divide(
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%X: !gpu.global<[M], f32> = tensor 0, %Y: !gpu.global<[M], f32> = tensor 1) threads 32 {
    %c0 = arith.constant 0 : index
    %x = gpu.load_global %X[%c0 : index] : !gpu.global<[M], f32> -> f32
    %exact = math.exp2 %x : f32
    %near = math.exp2 %exact fastmath<afn> : f32
    %one = arith.constant 1.0 : f32
    %exactly = arith.divf %one, %near : f32
    %nearly = arith.divf %one, %exactly fastmath<afn> : f32
    %other = arith.divf %nearly, %exactly fastmath<afn> : f32
    gpu.store_global %other, %Y[%c0 : index] : f32, !gpu.global<[M], f32>
    gpu.return
  }
}
