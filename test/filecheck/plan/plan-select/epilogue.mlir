// RUN: polyc-opt %s -p 'plan-select{arch=sm_80}' | polyc-opt | filecheck %s
// RUN: polyc-opt %s -p 'plan-select{arch=sm_80},plan-select{arch=sm_80}' | filecheck %s

// The epilogue is listed in order; the factors may stand the other way round.  A second
// run leaves the schedules alone.
region.kernel @epilogue iters [m: M, n: N]
    ins(%A: !region.memref<[M, K], f16, align 16>, %B: !region.memref<[K, N], f16, align 16>, %bias: !region.memref<[N], f16, align 2>, %R: !region.memref<[M, N], f16, align 2>)
    outs(C: !region.memref<[M, N], f16, align 16> gmem) {
  %a = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[M, K], f16, align 16> -> !region.val<[m: M, k: K], f16>
  %af = region.cast %a : !region.val<[m: M, k: K], f16> -> !region.val<[m: M, k: K], f32>
  %ae = region.broadcast_in_dim %af dims [0, 1] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %b = region.read %B affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[K, N], f16, align 16> -> !region.val<[k: K, n: N], f16>
  %bf = region.cast %b : !region.val<[k: K, n: N], f16> -> !region.val<[k: K, n: N], f32>
  %be = region.broadcast_in_dim %bf dims [1, 2] : !region.val<[k: K, n: N], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %t = region.binary mul %be, %ae : !region.val<[m: M, k: K, n: N], f32>
  %acc = region.reduce sum %t over [k] init 0.0 acc f32 name "acc" : !region.val<[m: M, k: K, n: N], f32> -> !region.val<[m: M, n: N], f32>
  %v = region.read %bias affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], f16, align 2> -> !region.val<[n: N], f16>
  %vf = region.cast %v : !region.val<[n: N], f16> -> !region.val<[n: N], f32>
  %vb = region.broadcast_in_dim %vf dims [1] : !region.val<[n: N], f32> -> !region.val<[m: M, n: N], f32>
  %1 = region.binary add %acc, %vb : !region.val<[m: M, n: N], f32>
  %r = region.read %R affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[M, N], f16, align 2> -> !region.val<[m: M, n: N], f16>
  %rf = region.cast %r : !region.val<[m: M, n: N], f16> -> !region.val<[m: M, n: N], f32>
  %2 = region.binary add %rf, %1 : !region.val<[m: M, n: N], f32>
  %z = region.constant 0.0 : !region.val<[], f32>
  %zb = region.broadcast_in_dim %z dims [] : !region.val<[], f32> -> !region.val<[m: M, n: N], f32>
  %3 = region.binary max %2, %zb : !region.val<[m: M, n: N], f32>
  %4 = region.unary tanh %3 : !region.val<[m: M, n: N], f32>
  %5 = region.binary mul %4, %zb : !region.val<[m: M, n: N], f32>
  %c = region.cast %5 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f16>
  region.yield %c : !region.val<[m: M, n: N], f16>
}

// CHECK:      plan.schedule @epilogue variant "cp_async16_large" when (K mod 8 == 0, N mod 8 == 0, M * N >= 3538944) {
// CHECK:      plan.schedule @epilogue variant "cp_async16" when (K mod 8 == 0, N mod 8 == 0) {
// CHECK-NEXT:   arch = "sm_80",
// CHECK-NEXT:   tensorize = "acc",
// CHECK-NEXT:   mma = "mma.sync",
// CHECK:        bind = {"m.o" = "block.x", "n.o" = "block.x", "m.i.o" = "warp.y", "n.i.o" = "warp.x"},
// CHECK-NEXT:   cache = [{"tensor" = "A", "where" = "smem", "at" = "k.i", "pingpong" = true}, {"tensor" = "B", "where" = "smem", "at" = "k.i", "pingpong" = true}],
// CHECK-NEXT:   predicate_tail = ["m", "n", "k"],
// CHECK-NEXT:   epilogue = ["bias", "residual", "relu", "tanh", "mul"],
// CHECK:        local_edges = [{"from" = "acc", "to" = "mul", "buffer" = "reg"}]
// CHECK:      plan.schedule @epilogue variant "cp_async4"
// CHECK:      plan.schedule @epilogue variant "scalar"
// CHECK-NOT:  plan.schedule
