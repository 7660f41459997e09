// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region --split-input-file --verify-diagnostics | filecheck %s
// What tiny can say and a kernel cannot yet is refused at its line, with the way out.

// CHECK: not_yet.mlir:{{[0-9]+}}:3: error[UnsupportedProgram]: tiny.pad has no form in a kernel yet; write the graph without it
frontend.graph @f(%x: !frontend.tensor<[M], f32>) -> !frontend.tensor<[M + 1], f32> {
  %0 = frontend.pad %x low [1] high [0] value 0.0 : !frontend.tensor<[M], f32> -> !frontend.tensor<[M + 1], f32>
  frontend.output %0 : !frontend.tensor<[M + 1], f32>
}

// -----

// CHECK: not_yet.mlir:{{[0-9]+}}:3: error[UnsupportedProgram]: tiny.slice has no form in a kernel yet; write the graph without it
frontend.graph @f(%x: !frontend.tensor<[M], f32>) -> !frontend.tensor<[M floordiv 2], f32> {
  %0 = frontend.slice %x [1:M:2] : !frontend.tensor<[M], f32> -> !frontend.tensor<[M floordiv 2], f32>
  frontend.output %0 : !frontend.tensor<[M floordiv 2], f32>
}

// -----

// CHECK: not_yet.mlir:{{[0-9]+}}:3: error[UnsupportedProgram]: tiny.reshape has no form in a kernel yet; write the graph without it
frontend.graph @f(%x: !frontend.tensor<[M], f32>) -> !frontend.tensor<[M, 1], f32> {
  %0 = frontend.reshape %x : !frontend.tensor<[M], f32> -> !frontend.tensor<[M, 1], f32>
  frontend.output %0 : !frontend.tensor<[M, 1], f32>
}

// -----

// CHECK: not_yet.mlir:{{[0-9]+}}:3: error[UnsupportedProgram]: tiny.dim has no form in a kernel yet; write the graph without it
frontend.graph @f(%x: !frontend.tensor<[M], f32>) -> !frontend.tensor<[], f32> {
  %0 = frontend.reduce mean %x axes [0] : !frontend.tensor<[M], f32> -> !frontend.tensor<[], f32>
  frontend.output %0 : !frontend.tensor<[], f32>
}

// -----

// CHECK: not_yet.mlir:{{[0-9]+}}:3: error[UnsupportedProgram]: tiny.window has no form in a kernel yet; write the graph without it
tiny.graph @f(%x: !tiny.tensor<[M], f32>) -> !tiny.tensor<[M - 2, 3], f32> {
  %0 = tiny.window %x axes [0] size [3] stride [1] dilation [1] : !tiny.tensor<[M], f32> -> !tiny.tensor<[M - 2, 3], f32>
  tiny.output %0 : !tiny.tensor<[M - 2, 3], f32>
}

// -----

// CHECK: not_yet.mlir:{{[0-9]+}}:3: error[UnsupportedProgram]: tiny.mask has no form in a kernel yet; write the graph without it
tiny.graph @f(%x: !tiny.tensor<[M], f32>) -> !tiny.tensor<[M], f32> {
  %0 = tiny.mask %x where affine_set<(d0)[s0] : (d0 - 1 >= 0)> fill 0.0 : !tiny.tensor<[M], f32> -> !tiny.tensor<[M], f32>
  tiny.output %0 : !tiny.tensor<[M], f32>
}

// -----

// CHECK: not_yet.mlir:{{[0-9]+}}:1: error[UnsupportedProgram]: C of @f is a tensor of i1, and kernels read and write f16, bf16 and f32 only yet; cast it to one of these
frontend.graph @f(%x: !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], i1> {
  %0 = frontend.cast %x : !frontend.tensor<[M], f32> -> !frontend.tensor<[M], i1>
  frontend.output %0 : !frontend.tensor<[M], i1>
}
