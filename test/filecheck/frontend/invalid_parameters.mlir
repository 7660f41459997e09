// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of parameters; the message says which, with the values.

// CHECK: invalid_parameters.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: string literal expected naming an entry of a parameter file
frontend.graph @f(%x: !frontend.tensor<[M, 4], f16>) -> !frontend.tensor<[M, 4], f16> {
  %w = frontend.parameter w : !frontend.tensor<[4], f16>
  frontend.output %x : !frontend.tensor<[M, 4], f16>
}

// -----

// CHECK: invalid_parameters.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: expected a !frontend.tensor, not f16
frontend.graph @f(%x: !frontend.tensor<[M, 4], f16>) -> !frontend.tensor<[M, 4], f16> {
  %w = frontend.parameter "w" : f16
  frontend.output %x : !frontend.tensor<[M, 4], f16>
}

// -----

// CHECK: invalid_parameters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: an entry of a parameter file has a name, a text that is not empty, not ""
frontend.graph @f(%x: !frontend.tensor<[M, 4], f16>) -> !frontend.tensor<[M, 4], f16> {
  %w = frontend.parameter "" : !frontend.tensor<[4], f16>
  frontend.output %x : !frontend.tensor<[M, 4], f16>
}

// -----

// CHECK: invalid_parameters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: parameter "w" is !frontend.tensor<[M, 4], f16>; what a file holds has sizes that are numbers, so give them, or take the tensor as an input
frontend.graph @f(%x: !frontend.tensor<[M, 4], f16>) -> !frontend.tensor<[M, 4], f16> {
  %w = frontend.parameter "w" : !frontend.tensor<[M, 4], f16>
  frontend.output %x : !frontend.tensor<[M, 4], f16>
}

// -----

// CHECK: invalid_parameters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: entry "w" of the parameter file is !frontend.tensor<[4], f16> here and !frontend.tensor<[4], f32> there in @f; it has one type
frontend.graph @f(%x: !frontend.tensor<[M, 4], f16>) -> !frontend.tensor<[M, 4], f16> {
  %w = frontend.parameter "w" : !frontend.tensor<[4], f16>
  %v = frontend.parameter "w" : !frontend.tensor<[4], f32>
  frontend.output %x : !frontend.tensor<[M, 4], f16>
}

// -----

// CHECK: invalid_parameters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: entry "w" of the parameter file is !frontend.tensor<[5], f16> here and !frontend.tensor<[4], f16> there in @f; it has one type
frontend.graph @f(%x: !frontend.tensor<[M, 4], f16>, %w: !frontend.tensor<[5], f16> {storage = "const_pool", entry = "w"}) -> !frontend.tensor<[M, 4], f16> {
  %v = frontend.parameter "w" : !frontend.tensor<[4], f16>
  frontend.output %x : !frontend.tensor<[M, 4], f16>
}

// -----

// CHECK: invalid_parameters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: entry "w" is given to w and to v of @f; one input has it, which may be read at both places
frontend.graph @f(%x: !frontend.tensor<[M, 4], f16>, %w: !frontend.tensor<[5], f16> {storage = "const_pool", entry = "w"}, %v: !frontend.tensor<[5], f16> {storage = "const_pool", entry = "w"}) -> !frontend.tensor<[M, 4], f16> {
  frontend.output %x : !frontend.tensor<[M, 4], f16>
}

// -----

// CHECK: invalid_parameters.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: entry "w" is kept in the constant pool, and the tensor is not; add storage = "const_pool"
frontend.graph @f(%x: !frontend.tensor<[M, 4], f16>, %w: !frontend.tensor<[5], f16> {entry = "w"}) -> !frontend.tensor<[M, 4], f16> {
  frontend.output %x : !frontend.tensor<[M, 4], f16>
}

// -----

// CHECK: invalid_parameters.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: an entry of a parameter file has a name, a text that is not empty, not 3 : i64
frontend.graph @f(%x: !frontend.tensor<[M, 4], f16>, %w: !frontend.tensor<[5], f16> {storage = "const_pool", entry = 3}) -> !frontend.tensor<[M, 4], f16> {
  frontend.output %x : !frontend.tensor<[M, 4], f16>
}

// -----

// CHECK: invalid_parameters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: C of @f: an output is no entry of a parameter file
frontend.graph @f(%x: !frontend.tensor<[M, 4], f16>) -> (C: !frontend.tensor<[M, 4], f16> {storage = "const_pool", entry = "w"}) {
  frontend.output %x : !frontend.tensor<[M, 4], f16>
}
