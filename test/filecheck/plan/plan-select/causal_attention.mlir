// RUN: polyc-opt %examples/causal_attention.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_80}' | filecheck %s

// The plan of the specification's causal attention (S15.3): both products on the tensor cores, one
// pass over the keys, a tile of 64 queries and 64 keys for heads of 128.

// CHECK: region.kernel @causal_attention iters [b: B, h: H, m: M, i3: 128]
// CHECK: %acc1, %acc2, %acc3 = region.reduce_together %{{.*}}, %V_f32 over [n] chunk {
// CHECK:   plan.schedule @causal_attention variant "cp_async" {
// CHECK-NEXT:     arch = "sm_80",
// CHECK-NEXT:     tensorize = "acc",
// CHECK-NEXT:     mma = "mma.sync",
// CHECK-NEXT:     loader = "cp_async",
// CHECK-NEXT:     tile = [64, 64, 128],
// CHECK-NEXT:     stages = 2,
// CHECK-NEXT:     warp_tile = [16, 128],
// CHECK-NEXT:     fragment_buffers = 1,
// CHECK-NEXT:     consumers = 1,
// CHECK-NEXT:     pingpong = false,
// CHECK-NEXT:     registers = [],
// CHECK-NEXT:     cluster = [1, 1],
// CHECK-NEXT:     multicast = false,
// CHECK-NEXT:     raster = "row",
// CHECK-NEXT:     group = 1,
// CHECK-NEXT:     split_k = 1,
// CHECK-NEXT:     persistent = false,
// CHECK-NEXT:     vectorize = 8,
// CHECK-NEXT:     vectorize_axis = "i3",
// CHECK-NEXT:     bind = {"b" = "block.x", "h" = "block.x", "m.o" = "block.x", "m.i.o" = "warp"},
// CHECK-NEXT:     cache = [{"tensor" = "Q", "where" = "smem", "at" = "m.o", "pingpong" = false}, {"tensor" = "K", "where" = "smem", "at" = "n.o", "pingpong" = true}, {"tensor" = "V", "where" = "smem", "at" = "n.o", "pingpong" = true}],
// CHECK-NEXT:     predicate_tail = ["m", "n"],
// CHECK-NEXT:     epilogue = ["eq", "div", "select", "cast"],
// CHECK-NEXT:     layout_hints = {"Q_swizzle" = true, "K_swizzle" = true, "V_swizzle" = true, "Q_major" = "r0", "K_major" = "r0", "V_major" = "i3", "O_stride" = "row"},
// CHECK-NEXT:     algo_choice = {"attention" = "streaming_softmax"},
// CHECK-NEXT:     local_edges = [{"from" = "acc", "to" = "O", "buffer" = "reg"}]
// CHECK-NEXT:   }
