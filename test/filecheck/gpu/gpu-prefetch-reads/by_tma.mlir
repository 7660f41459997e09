// RUN: polyc-opt %s -p gpu-prefetch-reads | filecheck %s
// RUN: polyc-opt %s -p gpu-prefetch-reads,gpu-prefetch-reads | filecheck %s

// A bias of rows and columns comes to a tile of its own with the keys, and from there to registers
// while the products run: there it has the elements that the map would have read.

// CHECK:      %bias_tile = gpu.shared_tile : !gpu.shared<[64, 64], f16>
// CHECK-NEXT: %bias_1 = gpu.fragment : !gpu.fragment<[64, 64], f16>
// CHECK:      gpu.pipeline
// CHECK-NEXT:   gpu.copy %k[%n0, %c0] to %k_tile loader "tma" stage 0
// CHECK:        gpu.copy %bias[%{{[0-9]+}}, %n0] to %bias_tile loader "tma" stage 0
// CHECK-NEXT:   gpu.copy %v[%n0, %c0] to %v_tile loader "tma" stage 0
// CHECK-NEXT:   gpu.contract %q_tile
// CHECK-NEXT:   gpu.copy %bias_tile to %bias_1
// CHECK-NEXT:   gpu.map %scores
// CHECK-SAME:       ins(%bias_1 : !gpu.fragment<[64, 64], f16> affine_map<(d0, d1)[s0] -> (d0, d1)>)
gpu.module @biased arch "sm_90a" symbols [] {
  gpu.kernel @biased(%q: !gpu.global<[64, 64], f16, align 16> = tensor 0, %k: !gpu.global<[200, 64], f16, align 16> = tensor 1, %v: !gpu.global<[200, 64], f16, align 16> = tensor 2, %bias: !gpu.global<[64, 200], f16, align 16> = tensor 3, %y: !gpu.global<[64, 64], f32, align 16> = tensor 4) threads 256 {
    %c0 = arith.constant 0 : index
    %c200 = arith.constant 200 : index
    %zero = arith.constant 0.000000e+00 : f32
    %q_tile = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %k_tile = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %v_tile = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %scores = gpu.fragment : !gpu.fragment<[64, 64], f32>
    %weights = gpu.fragment : !gpu.fragment<[64, 64], f16>
    %out = gpu.fragment : !gpu.fragment<[64, 64], f32>
    gpu.fill %zero, %out : !gpu.fragment<[64, 64], f32>
    gpu.copy %q[%c0, %c0] to %q_tile loader "tma" : !gpu.global<[64, 64], f16, align 16>, !gpu.shared<[64, 64], f16>
    gpu.pipeline %n0, %i = to %c200 step 64 stages 2 {
      gpu.copy %k[%n0, %c0] to %k_tile loader "tma" stage 0 : !gpu.global<[200, 64], f16, align 16>, !gpu.shared<[64, 64], f16>
      gpu.copy %v[%n0, %c0] to %v_tile loader "tma" stage 0 : !gpu.global<[200, 64], f16, align 16>, !gpu.shared<[64, 64], f16>
      gpu.contract %q_tile affine_map<(d0, d1, d2) -> (d0, d2)>, %k_tile affine_map<(d0, d1, d2) -> (d1, d2)> into %scores clear mma "wgmma" warp_tile <64, 64> stage 1 : !gpu.shared<[64, 64], f16>, !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 64], f32>
      gpu.map %scores : !gpu.fragment<[64, 64], f32> origin [%n0] ins(%bias : !gpu.global<[64, 200], f16, align 16> affine_map<(d0, d1)[s0] -> (d0, d1 + s0)>) outs(%weights : !gpu.fragment<[64, 64], f16> affine_map<(d0, d1)[s0] -> (d0, d1)>) {
      ^bb0(%s: f32, %b: f16):
        %wide = arith.extf %b : f16 to f32
        %sum = arith.addf %s, %wide : f32
        %half = arith.truncf %sum : f32 to f16
        gpu.yield %half : f16
      }
      gpu.contract %weights affine_map<(d0, d1, d2) -> (d0, d2)>, %v_tile affine_map<(d0, d1, d2) -> (d2, d1)> into %out mma "wgmma" warp_tile <64, 64> stage 1 : !gpu.fragment<[64, 64], f16>, !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 64], f32>
    }
    gpu.map %out : !gpu.fragment<[64, 64], f32> origin [] ins() outs(%y : !gpu.global<[64, 64], f32, align 16> affine_map<(d0, d1) -> (d0, d1)>) {
    ^bb0(%o: f32):
      gpu.yield %o : f32
    }
    gpu.return
  }
  gpu.dispatch (q: !gpu.global<[64, 64], f16>, k: !gpu.global<[200, 64], f16>, v: !gpu.global<[200, 64], f16>, bias: !gpu.global<[64, 200], f16>) -> (y: !gpu.global<[64, 64], f32>) {
    gpu.launch @biased align [16, 16, 16, 16, 16] grid [1]
  }
}
