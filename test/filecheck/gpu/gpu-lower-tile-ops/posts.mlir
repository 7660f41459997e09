// RUN: polyc-opt %s -p gpu-lower-tile-ops | filecheck %s

// The first thread that holds an element posts it; each thread awaits the words of its own, and has
// nothing of those that it is not to wait for.

gpu.module @m arch "sm_80" symbols [M] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%w: !gpu.global<[M, 64], i64> = workspace "words", %M: index = symbol M) threads 64 {
    %zero = arith.constant 0 : index
    %x = arith.constant 2.0 : f32
    %one = gpu.fragment : !gpu.fragment<[1, 1], f32, #gpu.fragment_layout<threads 64, registers 1, affine_map<(d0, d1) -> (0, 0)>>>
    gpu.fill %x, %one : !gpu.fragment<[1, 1], f32, #gpu.fragment_layout<threads 64, registers 1, affine_map<(d0, d1) -> (0, 0)>>>
    // CHECK: scf.if
    // CHECK: gpu.post_global {{%.*}}, %w[{{%.*}}, {{%.*}} : index, index] : f32, !gpu.global<[M, 64], i64>
    // CHECK-NEXT: }
    gpu.post %one to %w[%zero, %M] : !gpu.fragment<[1, 1], f32, #gpu.fragment_layout<threads 64, registers 1, affine_map<(d0, d1) -> (0, 0)>>>, !gpu.global<[M, 64], i64>
    %f = gpu.fragment : !gpu.fragment<[1, 64], f32, #gpu.fragment_layout<threads 64, registers 1, affine_map<(d0, d1) -> (0, d0)>>>
    // CHECK: [[NOTHING:%.*]] = arith.constant 1.000000e+00 : f32
    // CHECK: [[EARLIER:%.*]] = arith.cmpi slt, {{%.*}}, %M : index
    // CHECK: gpu.await_posts_global %w[{{%.*}}, {{%.*}} : index, index] if [[EARLIER]] to [[F:%.*]][{{%.*}}]
    // CHECK-NEXT: [[TAKEN:%.*]] = memref.load [[F]]
    // CHECK-NEXT: arith.select [[EARLIER]], [[TAKEN]], [[NOTHING]] : f32
    gpu.await_posts prod %w[%zero, %zero] axis 1 until %M to %f : !gpu.global<[M, 64], i64>, !gpu.fragment<[1, 64], f32, #gpu.fragment_layout<threads 64, registers 1, affine_map<(d0, d1) -> (0, d0)>>>
    gpu.return
  }
  gpu.dispatch () -> (Y: !gpu.global<[M], f32>) {
    gpu.sequence @s align [4] {
      gpu.workspace "words" zeroed : !gpu.global<[M, 64], i64>
      gpu.launch @k grid [M] cooperative
    }
  }
}
