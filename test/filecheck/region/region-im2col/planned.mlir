// RUN: polyc-opt %examples/conv_silu.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,plan-select{arch=sm_80 plan="%S/Inputs/im2col.json"}' | filecheck %s
// RUN: polyc-opt %examples/conv_silu.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,plan-select{arch=sm_80 plan="%S/Inputs/im2col.json"},region-to-gpu' | filecheck %s --check-prefix=TILES

// The plan's choice takes the region apart, and the two have schedules of their own: loops store
// the columns, and a gemm multiplies them.
// CHECK: region.kernel @conv_silu_columns
// CHECK: plan.schedule @conv_silu_columns variant "vector"
// CHECK: region.kernel @conv_silu_product
// CHECK: plan.schedule @conv_silu_product variant "cp_async16"

// Pixels are its rows, taps and channels what it sums over.
// TILES: gpu.kernel @conv_silu_columns_vector(%X: !gpu.global<[N, H, W, C], f16> = tensor 0, %columns: !gpu.global<[N, H, W, 3, 3, C], f16> = workspace "columns"
// TILES: gpu.kernel @conv_silu_product_cp_async16(%columns: !gpu.global<[H * N * W, 9 * C], f16> = workspace "columns", %Wt: !gpu.global<[F, 9 * C], f16> = tensor 1, %Y: !gpu.global<[H * N * W, F], f16> = tensor 2
// TILES: gpu.workspace "columns" : !gpu.global<[N, H, W, 3, 3, C], f16>
// TILES-NEXT: gpu.launch @conv_silu_columns_vector
// TILES: gpu.launch @conv_silu_product_cp_async16
