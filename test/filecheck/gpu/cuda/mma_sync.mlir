// RUN: polyc-opt %s -t cuda | filecheck %s

gpu.module @mma arch "sm_80" symbols [M] {
  gpu.kernel @warp(%C: !gpu.global<[M], f32> = tensor 0) threads 32 shared_bytes 4096 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %tile = gpu.shared_tile at 0 : !gpu.shared<[32, 64], f16, swizzle 128>
    %address = gpu.shared_address %tile[%c0] : !gpu.shared<[32, 64], f16, swizzle 128>
    %a = memref.alloca() : memref<8xi32, #gpu<space register>>
    %b = memref.alloca() : memref<4xi32, #gpu<space register>>
    %acc = memref.alloca() : memref<8xf32, #gpu<space register>>
    gpu.ldmatrix %address to %a[%c0] : memref<8xi32, #gpu<space register>>
    gpu.ldmatrix %address to %a[%c4] : memref<8xi32, #gpu<space register>>
    gpu.ldmatrix transpose %address to %b[%c0] : memref<4xi32, #gpu<space register>>
    gpu.mma_sync %a[%c4], %b[%c0], %acc[%c4] element f16 : memref<8xi32, #gpu<space register>>, memref<4xi32, #gpu<space register>>, memref<8xf32, #gpu<space register>>
    gpu.mma_sync %a[%c0], %b[%c0], %acc[%c0] element bf16 : memref<8xi32, #gpu<space register>>, memref<4xi32, #gpu<space register>>, memref<8xf32, #gpu<space register>>
    %x = memref.load %acc[%c1] : memref<8xf32, #gpu<space register>>
    gpu.store_global %x, %C[%c0 : index] : f32, !gpu.global<[M], f32>
    gpu.return
  }
}

// CHECK: __device__ __forceinline__ void ldmatrix_x4(u32* r, u32 address) {
// CHECK-NEXT:   asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
// CHECK-NEXT:       : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
// CHECK-NEXT:       : "r"(address)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ void ldmatrix_x4_transposed(u32* r, u32 address) {
// CHECK-NEXT:   asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
// CHECK-NEXT:       : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
// CHECK-NEXT:       : "r"(address)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ void mma_m16n8k16_f16(float* d, const u32* a, const u32* b) {
// CHECK-NEXT:   asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
// CHECK-NEXT:       : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
// CHECK-NEXT:       : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
// CHECK-NEXT: }
// CHECK: extern "C" __global__ void __launch_bounds__(32, 1)
// CHECK-NEXT: warp(float* __restrict__ C) {
// CHECK-NEXT:   extern __shared__ __align__(1024) unsigned char shared[];
// CHECK-NEXT:   u32 shared_base = shared_window(shared);
// CHECK-NEXT:   u32 tile = shared_base;
// CHECK-NEXT:   u32 address = tile;
// CHECK-NEXT:   u32 a[8];
// CHECK-NEXT:   u32 b[4];
// CHECK-NEXT:   float acc[8];
// CHECK-NEXT:   ldmatrix_x4(a, address);
// CHECK-NEXT:   ldmatrix_x4(a + 4, address);
// CHECK-NEXT:   ldmatrix_x4_transposed(b, address);
// CHECK-NEXT:   mma_m16n8k16_f16(acc + 4, a + 4, b);
// CHECK-NEXT:   mma_m16n8k16_bf16(acc, a, b);
// CHECK-NEXT:   float x = acc[1];
// CHECK-NEXT:   store_global_f32(C, x);
// CHECK-NEXT: }
