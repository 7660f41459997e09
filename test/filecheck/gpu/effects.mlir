// RUN: polyc-opt %s -p cse,dce | filecheck %s

// Places in shared memory are never merged; loads into registers are never dropped.
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 128 {
    // CHECK: %full = gpu.mbarrier : !gpu.mbarrier<4>
    // CHECK-NEXT: %empty = gpu.mbarrier : !gpu.mbarrier<4>
    // CHECK-NEXT: gpu.mbarrier_init %full[%i] count 1
    // CHECK-NEXT: gpu.mbarrier_init %empty[%i] count 2
    %full = gpu.mbarrier : !gpu.mbarrier<4>
    %empty = gpu.mbarrier : !gpu.mbarrier<4>
    gpu.mbarrier_init %full[%i] count 1 : !gpu.mbarrier<4>
    gpu.mbarrier_init %empty[%i] count 2 : !gpu.mbarrier<4>
    // CHECK-NEXT: %A = gpu.shared_tile : !gpu.shared<[8, 8], f16>
    // CHECK-NEXT: %B = gpu.shared_tile : !gpu.shared<[8, 8], f16>
    %A = gpu.shared_tile : !gpu.shared<[8, 8], f16>
    %B = gpu.shared_tile : !gpu.shared<[8, 8], f16>
    // CHECK-NEXT: %a = gpu.shared_address %A[%i]
    // CHECK-NEXT: gpu.store_shared %a, %a : i32
    // CHECK-NEXT: %b = gpu.shared_address %B[%i]
    %a = gpu.shared_address %A[%i] : !gpu.shared<[8, 8], f16>
    gpu.store_shared %a, %a : i32
    %again = gpu.shared_address %A[%i] : !gpu.shared<[8, 8], f16>
    %b = gpu.shared_address %B[%i] : !gpu.shared<[8, 8], f16>
    // CHECK-NEXT: %r = memref.alloca()
    // CHECK-NEXT: gpu.ldmatrix %a to %r[%i]
    // CHECK-NEXT: gpu.store_shared %a, %b : i32
    %r = memref.alloca() : memref<4xi32, #gpu<space register>>
    gpu.ldmatrix %again to %r[%i] : memref<4xi32, #gpu<space register>>
    gpu.store_shared %again, %b : i32
    gpu.return
  }
}
