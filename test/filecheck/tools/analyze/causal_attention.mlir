// RUN: polyc analyze %examples/causal_attention.mlir --arch sm_80 | filecheck %s
// RUN: polyc-opt %examples/causal_attention.mlir -p frontend-to-tiny,tiny-to-index --dump=indexbook | filecheck %s --check-prefix=BOOK

// CHECK: @causal_attention for sm_80, symbols B, H, M, N
// CHECK: matmul      [b, h, m, r0] x [b, h, n, r0] -> [b, h, m, n], batch b h
// CHECK: waits       cp.async groups 2 iterations ahead, 1 may fly at a read; 3 stages
// CHECK: v8 = tiny.reduce max
// CHECK-NEXT: axes        parallel b h m; reduced n
// CHECK: v16 = tiny.binary sub
// CHECK: reads       v6: 1 x 1 x 8 x N, 32 * N bytes live, gmem
// CHECK: compute at  v6 once at each b h m{{$}}
// CHECK: matmul      [b, h, m, n] x [b, h, n, i3] -> [b, h, m, i3], batch b h
// CHECK: guards
// CHECK: kept        v8 v16, tiny.mask v7: [B, H, M, N] -> { [b, h, m, n] : n <= m }
// CHECK: kept        v25, tiny.mask v20:
// CHECK: why not
// CHECK-NEXT: fusion      v16: v6 is not computed inside tiles of n, as element {{.*}} of v6 is needed at n = 0 and at n = 64 when B = 1, H = 1, M = 1, N = 65
// CHECK: tma         v25: v21 is computed, and is not in global memory unless a kernel stores it there
// CHECK: region      @causal_attention over b h m i3, reduces r0 n

// BOOK: "index_book": {
// BOOK: "fill": "-inf"
