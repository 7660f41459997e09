// RUN: polyc-opt %s -t cuda | filecheck %s

gpu.module @grid arch "sm_80" symbols [M] {
  gpu.kernel @k(%n: !gpu.global<[M], i32> = workspace "arrived", %P: !gpu.global<[M], f32> = workspace "parts", %X: !gpu.global<[M], f32> = tensor 0, %M: index = symbol M) threads 64 {
    %at = arith.constant 3 : i64
    gpu.signal_global %n[%at : i64] : !gpu.global<[M], i32>
    gpu.wait_global %n[%at : i64] until %M : !gpu.global<[M], i32>
    // What other CTAs have written is not read-only data.
    %p = gpu.load_global %P[%at : i64] : !gpu.global<[M], f32> -> f32
    %x = gpu.load_global %X[%at : i64] : !gpu.global<[M], f32> -> f32
    gpu.store_global %p, %P[%at : i64] : f32, !gpu.global<[M], f32>
    gpu.store_global %x, %P[%at : i64] : f32, !gpu.global<[M], f32>
    gpu.return
  }
}
// CHECK: void signal_global(void* pointer)
// CHECK: "red.release.gpu.global.add.u32 [%0], 1;"
// CHECK: void wait_global(const void* pointer, int count)
// CHECK: do {
// CHECK: "ld.acquire.gpu.global.s32 %0, [%1];"
// CHECK: } while (seen < count);
// CHECK: signal_global(n + 3
// CHECK-NEXT: wait_global(n + 3{{.*}}, M);
// CHECK-NEXT: load_global_f32(P + 3
// CHECK-NEXT: load_global_nc_f32(X + 3
