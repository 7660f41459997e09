// Y = softmax of the rows of X by the textbook's two passes: every row is read twice, once for its
// maximum and its sum and once for the result.  Each thread keeps a maximum and a sum of its own and
// rescales the sum when the maximum grows.  For comparison with softmax.mlir, which reads once.
//
//   polyc simulate examples/tile/softmax_two_pass.mlir --set M=3 --set N=2200

!matrix = !gpu.global<[M, N], f16>
!half1x1024 = !gpu.fragment<[1, 1024], f16>
!half1x2048 = !gpu.fragment<[1, 2048], f16>
!wide1 = !gpu.fragment<[1], f32>
!wide256 = !gpu.fragment<[256], f32>
!wide1x1024 = !gpu.fragment<[1, 1024], f32>
!wide1x2048 = !gpu.fragment<[1, 2048], f32>

gpu.module @softmax_two_pass arch "sm_90a" symbols [M, N] {
  gpu.kernel @softmax_two_pass(
      %X: !matrix = tensor 0,
      %Y: !matrix = tensor 1, %M: index = symbol M, %N: index = symbol N)
      threads 256 {
    %row = gpu.block_id
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %lowest = arith.constant 0xFF800000 : f32
    %least = arith.constant -3.40282347E+38 : f32
    %nothing = arith.constant 0.0 : f32
    %log2e = arith.constant 1.44269502 : f32
    %unit = arith.constant 1.0 : f32
    %step = arith.constant 2048 : index
    %half = gpu.fragment : !half1x2048
    %wide = gpu.fragment : !wide1x2048
    %part = gpu.fragment : !wide256
    %new = gpu.fragment : !wide256
    %most = gpu.fragment : !wide256
    %top = gpu.fragment : !wide1
    %sum = gpu.fragment : !wide1
    // Finite, so that nothing is subtracted from itself where a part has no element yet.
    gpu.fill %least, %most : !wide256
    gpu.fill %nothing, %part : !wide256
    scf.for %j = %zero to %N step %step {
      gpu.copy %X[%row, %j] to %half : !matrix, !half1x2048
      gpu.map %half : !half1x2048 origin []
          ins()
          outs(%wide : !wide1x2048 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16):
        %f = arith.extf %e : f16 to f32
        %at = gpu.tile_index 1
        %of = affine.apply affine_map<(d0) -> (d0 floordiv 8 * 8)> (%at)
        %place = arith.addi %of, %j : index
        %inside = arith.cmpi slt, %place, %N : index
        %v = arith.select %inside, %f, %lowest : f32
        gpu.yield %v : f32
      }
      gpu.reduce max %wide by affine_map<(i, j) -> (j floordiv 8)> into %new : !wide1x2048, !wide256
      gpu.map %new : !wide256 origin []
          ins(%most : !wide256 affine_map<(i) -> (i)>,
              %part : !wide256 affine_map<(i) -> (i)>)
          outs(%most : !wide256 affine_map<(i) -> (i)>,
               %part : !wide256 affine_map<(i) -> (i)>) {
      ^bb0(%e: f32, %o: f32, %q: f32):
        %n = arith.maximumf %e, %o : f32
        %d = arith.subf %o, %n : f32
        %l = arith.mulf %d, %log2e : f32
        %f = math.exp2 %l fastmath<afn> : f32
        %t = arith.mulf %q, %f : f32
        gpu.yield %n, %t : f32, f32
      }
      gpu.map %wide : !wide1x2048 origin []
          ins(%most : !wide256 affine_map<(i, j) -> (j floordiv 8)>)
          outs(%wide : !wide1x2048 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f32, %z: f32):
        %d = arith.subf %e, %z : f32
        %l = arith.mulf %d, %log2e : f32
        %p = math.exp2 %l fastmath<afn> : f32
        gpu.yield %p : f32
      }
      gpu.reduce sum %wide by affine_map<(i, j) -> (j floordiv 8)> into %part accumulate : !wide1x2048, !wide256
    }
    gpu.reduce max %most by affine_map<(i) -> (0)> into %top : !wide256, !wide1
    gpu.map %most : !wide256 origin []
        ins(%top : !wide1 affine_map<(i) -> (0)>,
            %part : !wide256 affine_map<(i) -> (i)>)
        outs(%part : !wide256 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32, %t: f32, %q: f32):
      %d = arith.subf %e, %t : f32
      %l = arith.mulf %d, %log2e : f32
      %f = math.exp2 %l fastmath<afn> : f32
      %n = arith.mulf %q, %f : f32
      gpu.yield %n : f32
    }
    gpu.reduce sum %part by affine_map<(i) -> (0)> into %sum : !wide256, !wide1
    gpu.map %sum : !wide1 origin []
        ins()
        outs(%sum : !wide1 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32):
      %r = arith.divf %unit, %e : f32
      gpu.yield %r : f32
    }
    scf.for %j = %zero to %N step %step {
      gpu.copy %X[%row, %j] to %half : !matrix, !half1x2048
      gpu.map %half : !half1x2048 origin []
          ins(%top : !wide1 affine_map<(i, j) -> (i)>,
              %sum : !wide1 affine_map<(i, j) -> (i)>)
          outs(%half : !half1x2048 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16, %t: f32, %r: f32):
        %f = arith.extf %e : f16 to f32
        %d = arith.subf %f, %t : f32
        %l = arith.mulf %d, %log2e : f32
        %p = math.exp2 %l fastmath<afn> : f32
        %n = arith.mulf %p, %r : f32
        %y = arith.truncf %n : f32 to f16
        gpu.yield %y : f16
      }
      gpu.copy %half to %Y[%row, %j] : !half1x2048, !matrix
    }
    gpu.return
  }

  // Elements one by one: neighbours in neighbouring threads.
  gpu.kernel @softmax_two_pass_any(
      %X: !matrix = tensor 0,
      %Y: !matrix = tensor 1, %M: index = symbol M, %N: index = symbol N)
      threads 256 {
    %row = gpu.block_id
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %lowest = arith.constant 0xFF800000 : f32
    %least = arith.constant -3.40282347E+38 : f32
    %nothing = arith.constant 0.0 : f32
    %log2e = arith.constant 1.44269502 : f32
    %unit = arith.constant 1.0 : f32
    %step = arith.constant 1024 : index
    %half = gpu.fragment : !half1x1024
    %wide = gpu.fragment : !wide1x1024
    %part = gpu.fragment : !wide256
    %new = gpu.fragment : !wide256
    %most = gpu.fragment : !wide256
    %top = gpu.fragment : !wide1
    %sum = gpu.fragment : !wide1
    // Finite, so that nothing is subtracted from itself where a part has no element yet.
    gpu.fill %least, %most : !wide256
    gpu.fill %nothing, %part : !wide256
    scf.for %j = %zero to %N step %step {
      gpu.copy %X[%row, %j] to %half : !matrix, !half1x1024
      gpu.map %half : !half1x1024 origin []
          ins()
          outs(%wide : !wide1x1024 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16):
        %f = arith.extf %e : f16 to f32
        %at = gpu.tile_index 1
        %place = arith.addi %at, %j : index
        %inside = arith.cmpi slt, %place, %N : index
        %v = arith.select %inside, %f, %lowest : f32
        gpu.yield %v : f32
      }
      gpu.reduce max %wide by affine_map<(i, j) -> (j mod 256)> into %new : !wide1x1024, !wide256
      gpu.map %new : !wide256 origin []
          ins(%most : !wide256 affine_map<(i) -> (i)>,
              %part : !wide256 affine_map<(i) -> (i)>)
          outs(%most : !wide256 affine_map<(i) -> (i)>,
               %part : !wide256 affine_map<(i) -> (i)>) {
      ^bb0(%e: f32, %o: f32, %q: f32):
        %n = arith.maximumf %e, %o : f32
        %d = arith.subf %o, %n : f32
        %l = arith.mulf %d, %log2e : f32
        %f = math.exp2 %l fastmath<afn> : f32
        %t = arith.mulf %q, %f : f32
        gpu.yield %n, %t : f32, f32
      }
      gpu.map %wide : !wide1x1024 origin []
          ins(%most : !wide256 affine_map<(i, j) -> (j mod 256)>)
          outs(%wide : !wide1x1024 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f32, %z: f32):
        %d = arith.subf %e, %z : f32
        %l = arith.mulf %d, %log2e : f32
        %p = math.exp2 %l fastmath<afn> : f32
        gpu.yield %p : f32
      }
      gpu.reduce sum %wide by affine_map<(i, j) -> (j mod 256)> into %part accumulate : !wide1x1024, !wide256
    }
    gpu.reduce max %most by affine_map<(i) -> (0)> into %top : !wide256, !wide1
    gpu.map %most : !wide256 origin []
        ins(%top : !wide1 affine_map<(i) -> (0)>,
            %part : !wide256 affine_map<(i) -> (i)>)
        outs(%part : !wide256 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32, %t: f32, %q: f32):
      %d = arith.subf %e, %t : f32
      %l = arith.mulf %d, %log2e : f32
      %f = math.exp2 %l fastmath<afn> : f32
      %n = arith.mulf %q, %f : f32
      gpu.yield %n : f32
    }
    gpu.reduce sum %part by affine_map<(i) -> (0)> into %sum : !wide256, !wide1
    gpu.map %sum : !wide1 origin []
        ins()
        outs(%sum : !wide1 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32):
      %r = arith.divf %unit, %e : f32
      gpu.yield %r : f32
    }
    scf.for %j = %zero to %N step %step {
      gpu.copy %X[%row, %j] to %half : !matrix, !half1x1024
      gpu.map %half : !half1x1024 origin []
          ins(%top : !wide1 affine_map<(i, j) -> (i)>,
              %sum : !wide1 affine_map<(i, j) -> (i)>)
          outs(%half : !half1x1024 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16, %t: f32, %r: f32):
        %f = arith.extf %e : f16 to f32
        %d = arith.subf %f, %t : f32
        %l = arith.mulf %d, %log2e : f32
        %p = math.exp2 %l fastmath<afn> : f32
        %n = arith.mulf %p, %r : f32
        %y = arith.truncf %n : f32 to f16
        gpu.yield %y : f16
      }
      gpu.copy %half to %Y[%row, %j] : !half1x1024, !matrix
    }
    gpu.return
  }

  gpu.dispatch (X: !matrix) -> (Y: !matrix) {
    gpu.launch @softmax_two_pass when (N mod 8 == 0) align [16, 16] grid [M]
    gpu.launch @softmax_two_pass_any align [2, 2] grid [M]
  }
}
