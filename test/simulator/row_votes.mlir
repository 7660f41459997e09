// Whether a row has an element above 0.99: what each half of a CTA finds by itself, and then the CTA.
gpu.module @row_votes arch "sm_80" symbols [M, N] {
  gpu.kernel @row_votes_asked(%X: !gpu.global<[M, N], f32> = tensor 0, %Y: !gpu.global<[M, 3], f32> = tensor 1, %N: index = symbol N) threads 128 {
    %row = gpu.block_id
    %thread = gpu.thread_id
    %zero = arith.constant 0 : index
    %two = arith.constant 2 : index
    %threads = arith.constant 128 : index
    %none = arith.constant false
    %bound = arith.constant 0.99 : f32
    %yes = arith.constant 1.0 : f32
    %no = arith.constant 0.0 : f32
    %mine = scf.for %k = %thread to %N step %threads iter_args(%so_far = %none) -> (i1) {
      %x = gpu.load_global %X[%row, %k : index, index] : !gpu.global<[M, N], f32> -> f32
      %above = arith.cmpf ogt, %x, %bound : f32
      %either = arith.ori %so_far, %above : i1
      scf.yield %either : i1
    }
    %half = affine.apply affine_map<(d0) -> (d0 floordiv 64)> (%thread)
    %in_half = gpu.barrier_any %mine at 1 plus %half threads 64
    %in_row = gpu.barrier_any %mine at 0 threads 128
    %lane = affine.apply affine_map<(d0) -> (d0 mod 64)> (%thread)
    %tells = arith.cmpi eq, %lane, %zero : index
    scf.if %tells {
      %found = arith.select %in_half, %yes, %no : f32
      gpu.store_global %found, %Y[%row, %half : index, index] : f32, !gpu.global<[M, 3], f32>
    }
    %first = arith.cmpi eq, %thread, %zero : index
    scf.if %first {
      %anew = gpu.opaque %row
      %found = arith.select %in_row, %yes, %no : f32
      gpu.store_global %found, %Y[%anew, %two : index, index] : f32, !gpu.global<[M, 3], f32>
    }
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[M, N], f32>) -> (Y: !gpu.global<[M, 3], f32>) {
    gpu.launch @row_votes_asked align [4, 4] grid [M]
  }
}
