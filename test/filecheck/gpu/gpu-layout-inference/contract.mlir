// RUN: polyc-opt %s -p gpu-layout-inference | filecheck %s

// A contract fixes the layouts of its operands (the widest swizzle that rows split into) and of
// its accumulator, and what is mapped over that takes its layout.

gpu.module @m arch "sm_90a" symbols [] {
  gpu.kernel @wgmma() threads 128 {
    // CHECK: %a = gpu.shared_tile : !gpu.shared<[64, 32], f16, swizzle 64>
    // CHECK-NEXT: %b = gpu.shared_tile : !gpu.shared<[32, 48], f16, swizzle 32>
    // CHECK-NEXT: %other = gpu.shared_tile : !gpu.shared<[64, 32], f16>
    // CHECK-NEXT: %acc = gpu.fragment : !gpu.fragment<[64, 48], f32, #gpu.fragment_layout<threads 128, registers 24, [[LAYOUT:affine_map<.*>]]>>
    // CHECK-NEXT: %copy = gpu.fragment : !gpu.fragment<[64, 48], f16, #gpu.fragment_layout<threads 128, registers 24, [[LAYOUT]]>>
    %a = gpu.shared_tile : !gpu.shared<[64, 32], f16>
    %b = gpu.shared_tile : !gpu.shared<[32, 48], f16>
    %other = gpu.shared_tile : !gpu.shared<[64, 32], f16>
    %acc = gpu.fragment : !gpu.fragment<[64, 48], f32>
    %copy = gpu.fragment : !gpu.fragment<[64, 48], f16>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %acc mma "wgmma" warp_tile <64, 48> : !gpu.shared<[64, 32], f16>, !gpu.shared<[32, 48], f16>, !gpu.fragment<[64, 48], f32>
    gpu.map %acc : !gpu.fragment<[64, 48], f32> origin [] ins() outs(%copy : !gpu.fragment<[64, 48], f16> affine_map<(i, j) -> (i, j)>) {
    ^bb0(%x : f32):
      %h = arith.truncf %x : f32 to f16
      gpu.yield %h : f16
    }
    gpu.return
  }

  // What an author says is kept: a swizzle, a ring.
  // CHECK-LABEL: gpu.kernel @said
  gpu.kernel @said() threads 32 {
    // CHECK-NEXT: %a = gpu.shared_tile : !gpu.shared<[16, 64], f16, swizzle 0>
    // CHECK-NEXT: %b = gpu.shared_tile : !gpu.shared<[64, 16], f16, swizzle 32, ring 3>
    %a = gpu.shared_tile : !gpu.shared<[16, 64], f16, swizzle 0>
    %b = gpu.shared_tile : !gpu.shared<[64, 16], f16, ring 3>
    // CHECK-NEXT: registers 8,
    %acc = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %acc mma "mma.sync" warp_tile <16, 16> : !gpu.shared<[16, 64], f16, swizzle 0>, !gpu.shared<[64, 16], f16, ring 3>, !gpu.fragment<[16, 16], f32>
    gpu.return
  }

  // Threads that load lines of one k: the tile lies as it is, with a pad where a copy turns it.
  // CHECK-LABEL: gpu.kernel @lines
  gpu.kernel @lines(%A: !gpu.global<[64, 16], f32> = tensor 0) threads 64 {
    // CHECK-NEXT: %a = gpu.shared_tile : !gpu.shared<[16, 64], f32, swizzle 0, pad 4>
    // CHECK-NEXT: %b = gpu.shared_tile : !gpu.shared<[16, 32], f32, swizzle 0>
    // CHECK-NEXT: %along = gpu.shared_tile : !gpu.shared<[32, 16], f32, swizzle 64>
    %a = gpu.shared_tile : !gpu.shared<[16, 64], f32>
    %b = gpu.shared_tile : !gpu.shared<[16, 32], f32>
    %along = gpu.shared_tile : !gpu.shared<[32, 16], f32>
    %acc = gpu.fragment : !gpu.fragment<[64, 32], f32>
    %other = gpu.fragment : !gpu.fragment<[64, 32], f32>
    %zero = arith.constant 0 : index
    gpu.copy %A[%zero, %zero] to %a turned loader "cp_async" : !gpu.global<[64, 16], f32>, !gpu.shared<[16, 64], f32>
    gpu.contract %a affine_map<(m, n, k) -> (k, m)>, %b affine_map<(m, n, k) -> (k, n)> into %acc mma "fma" warp_tile <32, 32> : !gpu.shared<[16, 64], f32>, !gpu.shared<[16, 32], f32>, !gpu.fragment<[64, 32], f32>
    gpu.contract %a affine_map<(m, n, k) -> (k, m)>, %along affine_map<(m, n, k) -> (n, k)> into %other mma "fma" warp_tile <32, 32> : !gpu.shared<[16, 64], f32>, !gpu.shared<[32, 16], f32>, !gpu.fragment<[64, 32], f32>
    gpu.return
  }
}
