// RUN: polyc-opt %s -t cuda | filecheck %s

gpu.module @exchange arch "sm_90a" symbols [M] {
  gpu.kernel @every(%C: !gpu.global<[M], f32> = tensor 0, %O: !gpu.global<[M], i32> = tensor 1, %map: !gpu.tensor_map<[64, 64], f16, swizzle 128> = tensor_map 2, %L: !gpu.global<[M], i64> = tensor 3, %i: index = symbol M) threads 128 {
    %tile = gpu.shared_tile at 0 : !gpu.shared<[64, 64], f16, swizzle 128>
    %zero = arith.constant 0 : index
    %x = gpu.load_global %C[%i : index] : !gpu.global<[M], f32> -> f32
    %one = arith.constant 1 : index
    %s = gpu.shuffle "xor" %x, %one : f32 -> f32
    %t = gpu.shuffle "up" %s, %one : f32 -> f32
    %u = gpu.shuffle "down" %t, %one : f32 -> f32
    %v = gpu.shuffle "index" %u, %zero : f32 -> f32
    %holds = arith.cmpi slt, %i, %one : index
    gpu.atomic_global "add" %v, %C[%i : index] if %holds : f32, !gpu.global<[M], f32>
    %n = arith.index_cast %i : index to i32
    %long = arith.index_cast %i : index to i64
    gpu.atomic_global "min" %n, %O[%i : index] : i32, !gpu.global<[M], i32>
    gpu.atomic_global "add" %long, %L[%i : index] : i64, !gpu.global<[M], i64>
    gpu.atomic_global "umax" %long, %L[%i : index] : i64, !gpu.global<[M], i64>
    %was = gpu.exchange_global %n, %O[%i : index] : !gpu.global<[M], i32>
    %were = gpu.exchange_global %was, %O[%i : index] if %holds : !gpu.global<[M], i32>
    %others = gpu.exchange_global add %were, %O[%i : index] if %holds : !gpu.global<[M], i32>
    gpu.store_global %others, %O[%i : index] : i32, !gpu.global<[M], i32>
    %a = gpu.shared_address %tile[%zero] : !gpu.shared<[64, 64], f16, swizzle 128>
    gpu.atomic_shared "max" %n, %a : i32
    %before = gpu.fetch_add_shared %n, %a : i32
    %w = gpu.shuffle "xor" %long, %one : i64 -> i64
    %rank, %count, %first = gpu.match_lanes %n bits 2
    %r = memref.alloca() : memref<4xi32, #gpu<space register>>
    gpu.ldmatrix %a to %r[%zero] : memref<4xi32, #gpu<space register>>
    gpu.stmatrix %r[%zero] to %a : memref<4xi32, #gpu<space register>>
    gpu.stmatrix transpose %r[%zero] to %a : memref<4xi32, #gpu<space register>>
    gpu.fence_proxy_async
    gpu.barrier
    gpu.tma_store %a to %map[%i, %zero] : !gpu.tensor_map<[64, 64], f16, swizzle 128>
    gpu.bulk_commit
    gpu.bulk_wait read 1
    gpu.bulk_wait 0
    gpu.return
  }
}

// CHECK: void reduce_global_add_f32(void* pointer, float value) {
// CHECK-NEXT: asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;"
// CHECK: void reduce_global_add_i64(void* pointer, i64 value) {
// CHECK-NEXT: asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;"
// CHECK: asm volatile("red.relaxed.gpu.global.max.u64 [%0], %1;"
// CHECK: u32 exchange_global(void* pointer, u32 value) {
// CHECK: atom.relaxed.gpu.global.exch.b32 %0, [%1], %2;
// CHECK: u32 fetch_add_global(void* pointer, u32 value) {
// CHECK: atom.relaxed.gpu.global.add.u32 %0, [%1], %2;
// CHECK: u32 fetch_add_shared(u32 address, u32 value) {
// CHECK: atom.relaxed.cta.shared.add.u32 %0, [%1], %2;
// CHECK: u32 match_lanes_2(u32 value) {
// CHECK-NEXT: u32 same = 0xffffffffu;
// CHECK-NEXT: asm volatile("{
// CHECK: "and.b32 t, %1, 1;
// CHECK: "vote.sync.ballot.b32 t, p, 0xffffffff;
// CHECK-NEXT: "@!p not.b32 t, t;
// CHECK-NEXT: "and.b32 %0, %0, t;
// CHECK: void tma_store_2d(u32 address, const TensorMap* map, int c0, int c1) {
// CHECK-NEXT: asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%1, {%2, %3}], [%0];"
// CHECK: float s = __shfl_xor_sync(0xffffffffu, x, 1);
// CHECK-NEXT: float t = __shfl_up_sync(0xffffffffu, s, 1);
// CHECK-NEXT: float u = __shfl_down_sync(0xffffffffu, t, 1);
// CHECK-NEXT: float v = __shfl_sync(0xffffffffu, u, 0);
// CHECK: if (holds) reduce_global_add_f32(C + i, v);
// CHECK: reduce_global_min_i32(O + i, n);
// CHECK-NEXT: reduce_global_add_i64(L + i, long_);
// CHECK-NEXT: reduce_global_umax_i64(L + i, long_);
// CHECK-NEXT: u32 was = exchange_global(O + i, n);
// CHECK-NEXT: u32 were = holds ? exchange_global(O + i, was) : 0u;
// CHECK-NEXT: u32 others = holds ? fetch_add_global(O + i, were) : 0u;
// CHECK: reduce_shared_max_i32(a, n);
// CHECK-NEXT: u32 before = fetch_add_shared(a, n);
// CHECK-NEXT: i64 w = __shfl_xor_sync(0xffffffffu, long_, 1);
// CHECK: u32 same = match_lanes_2(n);
// CHECK-NEXT: u32 rank = __popc(same & lanes_below());
// CHECK-NEXT: u32 count = __popc(same);
// CHECK-NEXT: u32 first = __ffs(same) - 1;
// CHECK: stmatrix_x4(a, r);
// CHECK-NEXT: stmatrix_x4_transposed(a, r);
// CHECK: tma_store_2d(a, &map, 0, i);
// CHECK-NEXT: bulk_commit();
// CHECK-NEXT: bulk_wait_read<1>();
// CHECK-NEXT: bulk_wait<0>();
