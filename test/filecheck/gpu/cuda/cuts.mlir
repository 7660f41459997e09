// RUN: polyc-opt %s -t cuda | filecheck %s

// What is beyond an integer of 32 bits is clamped, and NaN is 0, as the instruction has it.
gpu.module @cuts arch "sm_80" symbols [M] {
  gpu.kernel @each(%A: !gpu.global<[M], i32> = tensor 0, %F: !gpu.global<[M], f32> = tensor 1) threads 32 {
    %c0 = arith.constant 0 : index
    %f = gpu.load_global %F[%c0 : index] : !gpu.global<[M], f32> -> f32
    %s = gpu.cut %f : i32
    %u = gpu.cut %f unsigned : i32
    %sum = arith.addi %s, %u : i32
    gpu.store_global %sum, %A[%c0 : index] : i32, !gpu.global<[M], i32>
    gpu.return
  }
}

// CHECK: __device__ __forceinline__ int cut_s32(float x) {
// CHECK: "cvt.rzi.s32.f32 %0, %1;"
// CHECK: __device__ __forceinline__ u32 cut_u32(float x) {
// CHECK: "cvt.rzi.u32.f32 %0, %1;"
// CHECK: u32 s = (u32)cut_s32(f);
// CHECK-NEXT: u32 u = (u32)cut_u32(f);
