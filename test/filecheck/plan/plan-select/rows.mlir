// RUN: polyc-opt %examples/layer_norm.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_90a}' | filecheck %s
// RUN: polyc-opt %examples/layer_norm.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_80}' | filecheck %s
// RUN: polyc-opt %examples/rms_norm.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_90a}' | filecheck %s
// RUN: polyc-opt %examples/rms_norm.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_80}' | filecheck %s
// RUN: polyc-opt %examples/softmax.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_90a}' | filecheck %s
// RUN: polyc-opt %examples/softmax.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_90a}' | filecheck %s --check-prefix=HOPPER
// RUN: polyc-opt %examples/softmax.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_80}' | polyc-opt | filecheck %s

// Ways to hold a row, the same on both architectures: a warp, a block with tiles of three widths,
// chunks, and chunks of single elements for rows of any length at any address.  Hopper's clusters
// take the chunks of long rows in turn where these are few.  A thread has twice as much of a row
// where one reduction follows from another.

// CHECK:      plan.schedule @{{[a-z_]+}} variant "warp" when (N mod 8 == 0, -N >= -1024) {
// CHECK:        tensorize = "",
// CHECK-NEXT:   mma = "none",
// CHECK-NEXT:   loader = "register",
// CHECK-NEXT:   tile = [4, 1024, 1],
// CHECK-NEXT:   stages = 1,
// CHECK-NEXT:   warp_tile = [1, 1024],
// CHECK:        vectorize = 8,
// CHECK-NEXT:   vectorize_axis = "n.i",
// CHECK-NEXT:   bind = {"m.o" = "block.x", "m.i" = "warp"},
// CHECK:        predicate_tail = ["m", "n"],
// CHECK:        algo_choice = {"rows" = "resident"},
// CHECK:      plan.schedule @{{[a-z_]+}} variant "block_2048" when (N mod 8 == 0, -N >= -2048) {
// CHECK:        tile = [1, 2048, 1],
// CHECK:        warp_tile = [1, {{512|1024}}],
// CHECK:      plan.schedule @{{[a-z_]+}} variant "block_4096" when (N mod 8 == 0, -N >= -4096) {
// CHECK:        tile = [1, 4096, 1],
// CHECK:        warp_tile = [1, {{512|1024}}],
// CHECK:      plan.schedule @{{[a-z_]+}} variant "block" when (N mod 8 == 0, -N >= -8192) {
// CHECK:        tile = [1, 8192, 1],
// CHECK:        warp_tile = [1, 1024],
// CHECK:        bind = {"m" = "block.x"},
// CHECK:        predicate_tail = ["n"],
// CHECK:        algo_choice = {"rows" = "resident"},
// CHECK:      plan.schedule @{{[a-z_]+}} variant "chunks" when (N mod 8 == 0) {
// CHECK:        tile = [1, 8192, 1],
// CHECK:        warp_tile = [1, 512],
// CHECK:        algo_choice = {"rows" = "streaming"},
// CHECK:      plan.schedule @{{[a-z_]+}} variant "any" {
// CHECK:        tile = [1, 1024, 1],
// CHECK:        warp_tile = [1, 128],
// CHECK:        vectorize = 1,
// CHECK:        algo_choice = {"rows" = "streaming"},
// CHECK-NOT:  plan.schedule

// Rows that registers do not hold are kept in shared memory, of a block or of a cluster's blocks.
// HOPPER:     plan.schedule @softmax variant "kept" when (N mod 8 == 0, -N >= -32768) {
// HOPPER:       loader = "cp_async",
// HOPPER:       tile = [1, 4096, 8],
// HOPPER:       cache = [{"tensor" = "X", "where" = "smem", "at" = "n.o", "bytes" = 2}],
// HOPPER:       algo_choice = {"rows" = "kept"},
// HOPPER:     plan.schedule @softmax variant "kept_split8" when (N mod 8 == 0, -N >= -262144) {
// HOPPER:       split_k = 8,
// HOPPER:     plan.schedule @softmax variant "team" when (N mod 8 == 0, -N >= -5242880) {
// HOPPER:       split_k = 256,
// HOPPER-NEXT:  persistent = true,
// HOPPER:     plan.schedule @softmax variant "chunks_split8" when (N mod 8 == 0, -M >= -66, N >= 65536) {
// HOPPER:       tile = [1, 8192, 1],
// HOPPER:       split_k = 8,
// HOPPER:     plan.schedule @softmax variant "chunks" when (N mod 8 == 0) {
// HOPPER:       split_k = 1,
