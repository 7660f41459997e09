// C = A · B on SM90 with two consumer warpgroups that take turns: each computes tiles of 64 x 256 of
// its own, and while one stores its tile the other has the tensor cores.
//
// Roles, ring and turns are written out: consumers are independent, the ring's iterations count on
// over all tiles of the CTA, and consumer w takes every second tile.
//
//   polyc run examples/tile/gemm_sm90_pingpong.mlir --set M=136 --set N=264 --set K=328

!A = !gpu.global<[M, K], f16>
!B = !gpu.global<[K, N], f16>
!C = !gpu.global<[M, N], f16>
!a = !gpu.shared<[64, 64], f16, ring 4>
!b = !gpu.shared<[64, 256], f16, ring 4>
!c = !gpu.shared<[64, 256], f16, swizzle 128, ring 2>
!acc = !gpu.fragment<[64, 256], f32>
!out = !gpu.fragment<[64, 256], f16>

gpu.module @gemm_sm90_pingpong arch "sm_90a" symbols [M, K, N]
    assuming (K mod 8 == 0, N mod 8 == 0, K >= 1) {
  gpu.kernel @gemm_sm90_pingpong(
      %A: !A = tensor 0, %B: !B = tensor 1, %C: !C = tensor 2,
      %M: index = symbol M, %N: index = symbol N, %K: index = symbol K) threads 384 {
    %zero = arith.constant 0.0 : f32
    %none = arith.constant 0 : index
    %one = arith.constant 1 : index
    %steps = affine.apply affine_map<()[k] -> (k ceildiv 64)> ()[%K]
    %a = gpu.shared_tile : !a
    %b = gpu.shared_tile : !b
    %c = gpu.shared_tile : !c
    %ring = gpu.ring consumers 1 : !gpu.ring<4>
    %turns = gpu.order_barrier : !gpu.order<2>
    gpu.roles consumers 2 independent registers [40, 232] single_thread producer {
      gpu.tile_loop (%row, %column, %n) = [%M, %N] tile <64, 256> raster "grouped" 16 {
        %first = arith.muli %n, %steps : index
        scf.for %i = %none to %steps step %one {
          %it = affine.apply affine_map<(f, i) -> (f + i)> (%first, %i)
          %slot = affine.apply affine_map<(it) -> (it mod 4)> (%it)
          %k = affine.apply affine_map<(i) -> (i * 64)> (%i)
          gpu.ring_acquire %ring[%it] : !gpu.ring<4>
          gpu.copy %A[%row, %k] to %a slot %slot loader "tma"
              signal %ring : !gpu.ring<4> at %it : !A, !a
          gpu.copy %B[%k, %column] to %b slot %slot loader "tma"
              signal %ring : !gpu.ring<4> at %it : !B, !b
        }
      }
      gpu.yield
    } consumer (%w) {
      gpu.tile_loop (%row, %column, %n) = [%M, %N] tile <64, 256> raster "grouped" 16
          share %w of 2 {
        %acc = gpu.fragment : !acc
        %out = gpu.fragment : !out
        gpu.fill %zero, %acc : !acc
        %first = arith.muli %n, %steps : index
        gpu.order_enter %turns[%w] : !gpu.order<2>
        scf.for %i = %none to %steps step %one {
          %it = affine.apply affine_map<(f, i) -> (f + i)> (%first, %i)
          %slot = affine.apply affine_map<(it) -> (it mod 4)> (%it)
          gpu.ring_wait %ring[%it] : !gpu.ring<4>
          gpu.contract %a slot %slot affine_map<(m, n, k) -> (m, k)>,
              %b slot %slot affine_map<(m, n, k) -> (k, n)>
              into %acc mma "wgmma" warp_tile <64, 256> : !a, !b, !acc
          gpu.await pending 1
          %late = arith.cmpi sgt, %i, %none : index
          scf.if %late {
            %previous = affine.apply affine_map<(it) -> (it - 1)> (%it)
            gpu.ring_release %ring[%previous] : !gpu.ring<4>
          }
        }
        gpu.order_leave %turns[%w] : !gpu.order<2>
        gpu.await pending 0
        %last = affine.apply affine_map<(f, s) -> (f + s - 1)> (%first, %steps)
        gpu.ring_release %ring[%last] : !gpu.ring<4>
        gpu.map %acc : !acc origin [] ins() outs(%out : !out affine_map<(i, j) -> (i, j)>) {
        ^bb0(%x: f32):
          %y = arith.truncf %x : f32 to f16
          gpu.yield %y : f16
        }
        gpu.copy %out to %c slot %w : !out, !c
        gpu.copy %c slot %w to %C[%row, %column] loader "tma" : !c, !C
      }
      gpu.yield
    }
    gpu.return
  }
  gpu.dispatch (A: !A, B: !B) -> (C: !C) {
    gpu.launch @gemm_sm90_pingpong align [16, 16, 16] grid [M ceildiv 64, N ceildiv 256] persistent
  }
}
