// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s

// Right-aligned broadcasting becomes expands that name their dimensions (S3.2).

// CHECK: tiny.graph @broadcast
// CHECK-NEXT: [[r:%[0-9]+]] = tiny.expand %row dims [1] : !tiny.tensor<[N], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: [[s:%[0-9]+]] = tiny.binary add %x, [[r]] : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: [[c:%[0-9]+]] = tiny.expand %column dims [0, 1] : !tiny.tensor<[M, 1], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: [[m:%[0-9]+]] = tiny.binary mul [[c]], [[s]] : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: tiny.output [[m]]
frontend.graph @broadcast(%x: !frontend.tensor<[M, N], f32>, %row: !frontend.tensor<[N], f32>, %column: !frontend.tensor<[M, 1], f32>)
    -> !frontend.tensor<[M, N], f32> {
  %0 = frontend.elementwise add %x, %row : (!frontend.tensor<[M, N], f32>, !frontend.tensor<[N], f32>) -> !frontend.tensor<[M, N], f32>
  %1 = frontend.elementwise mul %column, %0 : (!frontend.tensor<[M, 1], f32>, !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32>
  frontend.output %1 : !frontend.tensor<[M, N], f32>
}

// Functions that tiny has no word for; an intermediate is not rounded, the output is.

// CHECK: tiny.graph @composed
// CHECK-NEXT: %x_f32 = tiny.cast %x
// CHECK-NEXT: [[zero:%[0-9]+]] = tiny.constant 0.0
// CHECK-NEXT: [[z:%[0-9]+]] = tiny.expand [[zero]] dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[M], f32>
// CHECK-NEXT: [[r:%[0-9]+]] = tiny.binary max %x_f32, [[z]] : !tiny.tensor<[M], f32>
// CHECK-NEXT: [[g:%[0-9]+]] = tiny.unary sigmoid [[r]] : !tiny.tensor<[M], f32>
// CHECK-NEXT: [[s:%[0-9]+]] = tiny.binary mul [[r]], [[g]] : !tiny.tensor<[M], f32>
// CHECK-NEXT: [[h:%[0-9]+]] = tiny.constant 0.70710677
// CHECK-NEXT: [[he:%[0-9]+]] = tiny.expand [[h]] dims []
// CHECK-NEXT: [[q:%[0-9]+]] = tiny.binary mul [[s]], [[he]]
// CHECK-NEXT: [[e:%[0-9]+]] = tiny.unary erf [[q]]
// CHECK: [[out:%[0-9]+]] = tiny.cast {{%[0-9]+}} : !tiny.tensor<[M], f32> -> !tiny.tensor<[M], f16>
// CHECK-NEXT: tiny.output [[out]]
frontend.graph @composed(%x: !frontend.tensor<[M], f16>) -> !frontend.tensor<[M], f16> {
  %0 = frontend.elementwise relu %x : !frontend.tensor<[M], f16>
  %1 = frontend.elementwise silu %0 : !frontend.tensor<[M], f16>
  %2 = frontend.elementwise gelu %1 : !frontend.tensor<[M], f16>
  frontend.output %2 : !frontend.tensor<[M], f16>
}

// A scalar needs no expand; a cast to f32 rounds nothing; an input that is not used is kept.

// CHECK: tiny.graph @scalar(%x: !tiny.tensor<[], f16>, %unused: !tiny.tensor<[M], f16>) -> (C: !tiny.tensor<[], f32>) {
// CHECK-NEXT: %x_f32 = tiny.cast %x
// CHECK-NEXT: [[zero:%[0-9]+]] = tiny.constant 0.0
// CHECK-NEXT: %y = tiny.binary max %x_f32, [[zero]] : !tiny.tensor<[], f32>
// CHECK-NEXT: tiny.output %y : !tiny.tensor<[], f32>
frontend.graph @scalar(%x: !frontend.tensor<[], f16>, %unused: !frontend.tensor<[M], f16>) -> !frontend.tensor<[], f32> {
  %y = frontend.elementwise relu %x : !frontend.tensor<[], f16>
  %z = frontend.cast %y : !frontend.tensor<[], f16> -> !frontend.tensor<[], f32>
  frontend.output %z : !frontend.tensor<[], f32>
}

// An argument that is an output goes out as it came; text that is tiny already stays.

// CHECK: tiny.graph @copy(%x: !tiny.tensor<[M], f32>) -> (C: !tiny.tensor<[M], f32>) {
// CHECK-NEXT: tiny.output %x
frontend.graph @copy(%x: !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32> {
  frontend.output %x : !frontend.tensor<[M], f32>
}

// CHECK: tiny.graph @already
// CHECK-NEXT: tiny.output %x
tiny.graph @already(%x: !tiny.tensor<[M], f32>) -> !tiny.tensor<[M], f32> {
  tiny.output %x : !tiny.tensor<[M], f32>
}
