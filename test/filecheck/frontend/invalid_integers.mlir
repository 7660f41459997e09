// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: invalid_integers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: exp is no function of i32, which has abs, neg, not, relu, sign; add a cast
frontend.graph @f(%x: !frontend.tensor<[M], i32>) -> !frontend.tensor<[M], i32> {
  %0 = frontend.elementwise exp %x : !frontend.tensor<[M], i32>
  frontend.output %0 : !frontend.tensor<[M], i32>
}

// -----

// CHECK: error[InvalidIR]: add is no function of i1, which has and, or, xor; add a cast
frontend.graph @f(%x: !frontend.tensor<[M], i1>) -> !frontend.tensor<[M], i1> {
  %0 = frontend.elementwise add %x, %x : (!frontend.tensor<[M], i1>, !frontend.tensor<[M], i1>) -> !frontend.tensor<[M], i1>
  frontend.output %0 : !frontend.tensor<[M], i1>
}

// -----

// CHECK: error[InvalidIR]: xor is no function of f16
frontend.graph @f(%x: !frontend.tensor<[M], f16>) -> !frontend.tensor<[M], f16> {
  %0 = frontend.elementwise xor %x, %x : (!frontend.tensor<[M], f16>, !frontend.tensor<[M], f16>) -> !frontend.tensor<[M], f16>
  frontend.output %0 : !frontend.tensor<[M], f16>
}

// -----

// CHECK: error[InvalidIR]: add has one element type; an operand has i32, the result i64; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M], i64>, %y: !frontend.tensor<[M], i32>) -> !frontend.tensor<[M], i64> {
  %0 = frontend.elementwise add %x, %y : (!frontend.tensor<[M], i64>, !frontend.tensor<[M], i32>) -> !frontend.tensor<[M], i64>
  frontend.output %0 : !frontend.tensor<[M], i64>
}

// -----

// CHECK: error[InvalidIR]: lt is no function of i1, which has eq, ne; add a cast
frontend.graph @f(%x: !frontend.tensor<[M], i1>) -> !frontend.tensor<[M], i1> {
  %0 = frontend.compare lt %x, %x : (!frontend.tensor<[M], i1>, !frontend.tensor<[M], i1>) -> !frontend.tensor<[M], i1>
  frontend.output %0 : !frontend.tensor<[M], i1>
}

// -----

// CHECK: error[InvalidIR]: 300 is no ui8, which holds integers from 0 to 255
frontend.graph @f(%x: !frontend.tensor<[M], i32>) -> !frontend.tensor<[M], i32> {
  %0 = frontend.constant 300 : !frontend.tensor<[], ui8>
  frontend.output %x : !frontend.tensor<[M], i32>
}

// -----

// CHECK: error[InvalidIR]: 0.5 is no i32, which holds integers from -2147483648 to 2147483647
frontend.graph @f(%x: !frontend.tensor<[M], i32>) -> !frontend.tensor<[M], i32> {
  %0 = frontend.constant 0.5 : !frontend.tensor<[], i32>
  frontend.output %x : !frontend.tensor<[M], i32>
}

// -----

// CHECK: error[InvalidIR]: the value of a pad: -1 is no ui8, which holds integers from 0 to 255
frontend.graph @f(%x: !frontend.tensor<[M], ui8>) -> !frontend.tensor<[M + 1], ui8> {
  %0 = frontend.pad %x low [1] high [0] value -1 : !frontend.tensor<[M], ui8> -> !frontend.tensor<[M + 1], ui8>
  frontend.output %0 : !frontend.tensor<[M + 1], ui8>
}

// -----

// CHECK: error[InvalidIR]: a mean computes with f16, bf16 or f32, not i32; use a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M, N], i32>) -> !frontend.tensor<[M], i32> {
  %0 = frontend.reduce mean %x axes [1] : !frontend.tensor<[M, N], i32> -> !frontend.tensor<[M], i32>
  frontend.output %0 : !frontend.tensor<[M], i32>
}

// -----

// CHECK: error[InvalidIR]: softmax computes with f16, bf16 or f32, not i32
frontend.graph @f(%x: !frontend.tensor<[M, N], i32>) -> !frontend.tensor<[M, N], i32> {
  %0 = frontend.softmax %x axes [1] : !frontend.tensor<[M, N], i32>
  frontend.output %0 : !frontend.tensor<[M, N], i32>
}

// -----

// CHECK: error[InvalidIR]: axis 2 of an iota is not an axis of [M, N], which are 0 to 1
frontend.graph @f(%x: !frontend.tensor<[M, N], i32>) -> !frontend.tensor<[M, N], i32> {
  %0 = frontend.iota axis 2 : !frontend.tensor<[M, N], i32>
  frontend.output %0 : !frontend.tensor<[M, N], i32>
}

// -----

// CHECK: error[InvalidIR]: an iota is of an integer type, not f32; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32> {
  %0 = frontend.iota axis 0 : !frontend.tensor<[M], f32>
  frontend.output %0 : !frontend.tensor<[M], f32>
}

// -----

// CHECK: error[InvalidIR]: a dim is a scalar number, not !frontend.tensor<[M], i64>
frontend.graph @f(%x: !frontend.tensor<[M], i64>) -> !frontend.tensor<[M], i64> {
  %0 = frontend.dim M : !frontend.tensor<[M], i64>
  frontend.output %0 : !frontend.tensor<[M], i64>
}
