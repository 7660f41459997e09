// RUN: polyc-opt %s -p gpu-cache-hints | filecheck %s
// RUN: polyc-opt %s -p gpu-cache-hints,gpu-cache-hints | filecheck %s

// Every second column of a tensor of 32 MB goes first; all of one, and one of 2 MB, are left alone.

gpu.module @m arch "sm_90a" symbols [] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%X: !gpu.global<[4096, 4096], f16, align 16> = tensor 0, %Y: !gpu.global<[4096, 256], f16, align 16> = tensor 1) threads 128 {
    %rows = arith.constant 4096 : index
    %columns = arith.constant 2048 : index
    %f = gpu.fragment : !gpu.fragment<[64, 64], f16>
    gpu.tile_loop (%row, %column, %n) = [%rows, %columns] tile <64, 64> raster "row" 1 {
      // CHECK: outs(%f : !gpu.fragment<[64, 64], f16> affine_map<(d0, d1)[s0, s1] -> (d0, d1)>) cache "evict_first" {
      gpu.map %f : !gpu.fragment<[64, 64], f16> origin [%row, %column] ins(%X : !gpu.global<[4096, 4096], f16, align 16> affine_map<(i, j)[r, c] -> (i + r, j * 2 + c * 2)>) outs(%f : !gpu.fragment<[64, 64], f16> affine_map<(i, j)[r, c] -> (i, j)>) {
      ^bb0(%x : f16, %y : f16):
        gpu.yield %y : f16
      }
      // CHECK: gpu.map
      // CHECK-NOT: evict_first
      gpu.map %f : !gpu.fragment<[64, 64], f16> origin [%row, %column] ins(%X : !gpu.global<[4096, 4096], f16, align 16> affine_map<(i, j)[r, c] -> (i + r, j + c)>) outs(%f : !gpu.fragment<[64, 64], f16> affine_map<(i, j)[r, c] -> (i, j)>) {
      ^bb0(%x : f16, %y : f16):
        gpu.yield %y : f16
      }
      gpu.map %f : !gpu.fragment<[64, 64], f16> origin [%row, %column] ins(%Y : !gpu.global<[4096, 256], f16, align 16> affine_map<(i, j)[r, c] -> (i + r, j * 2 + c * 2)>) outs(%f : !gpu.fragment<[64, 64], f16> affine_map<(i, j)[r, c] -> (i, j)>) {
      ^bb0(%x : f16, %y : f16):
        gpu.yield %y : f16
      }
    }
    gpu.return
  }
}
