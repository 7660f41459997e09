// RUN: polyc-opt %s -p tiny-to-index,index-to-region --check-each --set M=4 --seed 3 | filecheck %s
// Sizes that the user gives take the place of the small ones; the book and the region agree.

// CHECK: region.kernel @doubled
tiny.graph @doubled(%A: !tiny.tensor<[M], f32>) -> (C: !tiny.tensor<[M + 1], f32>) {
  %0 = tiny.pad %A low [1] high [0] value 2.0 : !tiny.tensor<[M], f32> -> !tiny.tensor<[M + 1], f32>
  %1 = tiny.binary add %0, %0 : !tiny.tensor<[M + 1], f32>
  tiny.output %1 : !tiny.tensor<[M + 1], f32>
}
