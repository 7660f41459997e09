// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: error[InvalidIR]: erf is no function of i8, which has abs, neg, not; add a cast
tiny.graph @f(%x: !tiny.tensor<[N], i8>) -> !tiny.tensor<[N], i8> {
  %0 = tiny.unary erf %x : !tiny.tensor<[N], i8>
  tiny.output %0 : !tiny.tensor<[N], i8>
}

// -----

// CHECK: error[InvalidIR]: each operand of add has element type i8, not i16
tiny.graph @f(%x: !tiny.tensor<[N], i8>, %y: !tiny.tensor<[N], i16>) -> !tiny.tensor<[N], i8> {
  %0 = tiny.binary add %x, %y : (!tiny.tensor<[N], i8>, !tiny.tensor<[N], i16>) -> !tiny.tensor<[N], i8>
  tiny.output %0 : !tiny.tensor<[N], i8>
}

// -----

// CHECK: error[InvalidIR]: an iota is one axis of an integer type, not !tiny.tensor<[M, N], i8>; expand it, or cast it
tiny.graph @f(%x: !tiny.tensor<[M, N], i8>) -> !tiny.tensor<[M, N], i8> {
  %0 = tiny.iota : !tiny.tensor<[M, N], i8>
  tiny.output %0 : !tiny.tensor<[M, N], i8>
}

// -----

// CHECK: error[InvalidIR]: the fill of a mask: 128 is no i8, which holds integers from -128 to 127
tiny.graph @f(%x: !tiny.tensor<[N], i8>) -> !tiny.tensor<[N], i8> {
  %0 = tiny.mask %x where affine_set<(d0)[s0] : (d0 >= 1)> fill 128 : !tiny.tensor<[N], i8> -> !tiny.tensor<[N], i8>
  tiny.output %0 : !tiny.tensor<[N], i8>
}

// -----

// CHECK: error[InvalidIR]: a constant is a scalar of f32 or an integer type, not !tiny.tensor<[], f16>
tiny.graph @f(%x: !tiny.tensor<[N], i8>) -> !tiny.tensor<[N], i8> {
  %0 = tiny.constant 1 : !tiny.tensor<[], f16>
  tiny.output %x : !tiny.tensor<[N], i8>
}

// -----

// CHECK: error[InvalidIR]: philox is no function of i64, which has add, {{.*}}, xor; add a cast
tiny.graph @f(%x: !tiny.tensor<[N], i64>) -> !tiny.tensor<[N], i64> {
  %0 = tiny.binary philox %x, %x : !tiny.tensor<[N], i64>
  tiny.output %0 : !tiny.tensor<[N], i64>
}
