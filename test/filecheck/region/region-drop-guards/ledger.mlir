// RUN: polyc-opt %s -p 'region-drop-guards{ledger=true}' 2>&1 | filecheck %s

region.kernel @half iters [n: N]
    ins(%x: !region.memref<[N], f32, align 16>) outs(y: !region.memref<[N], f32, align 16> gmem) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0 - 1)> where affine_set<(d0)[s0] : (d0 - 1 >= 0, -d0 + s0 >= 0)> else 0.0 : !region.memref<[N], f32, align 16> -> !region.val<[n: N], f32>
  region.yield %0 : !region.val<[n: N], f32>
}
// CHECK: ledger.mlir:5:3: remark[GuardDropped]: the guard [N] -> { [n] : n <= N } holds everywhere: [N] -> { [n] : 0 <= n < N } is within it
// CHECK: ledger.mlir:5:3: remark[GuardKept]: the guard [N] -> { [n] : n > 0 } is false at n = 0, N = 1
