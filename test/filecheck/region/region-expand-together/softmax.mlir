// RUN: polyc-opt %examples/softmax.mlir -p frontend-to-tiny,tiny-to-index,index-to-region,region-streaming-softmax,region-expand-together | filecheck %s --check-prefix=WHOLE
// RUN: polyc-opt %examples/softmax.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-streaming-softmax,plan-select{arch=sm_90a},region-expand-together' | filecheck %s --check-prefix=STREAMED
// RUN: polyc-opt %examples/softmax.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-streaming-softmax,plan-select{arch=sm_90a},region-expand-together' | polyc-opt --print-op-generic | polyc-opt | filecheck %s --check-prefix=STREAMED

// Without a schedule the maximum and the sum are a reduction each.
// WHOLE-NOT: region.reduce_together
// WHOLE: region.reduce max
// WHOLE: region.unary exp
// WHOLE-NEXT: region.reduce sum
// The exponentials are computed once.
// WHOLE-NOT: region.unary exp
// WHOLE-NOT: region.reduce_together

// A schedule that walks rows in chunks keeps them together; one that holds them has its own form.
// STREAMED: region.kernel @softmax
// STREAMED: region.reduce_together
// STREAMED: plan.schedule @softmax variant "warp"
// STREAMED: } form {
// STREAMED-NEXT: region.kernel @softmax iters [m: M, n: N]
// STREAMED-NOT: region.reduce_together
// STREAMED: region.reduce max
// STREAMED: region.unary exp
// STREAMED-NEXT: region.reduce sum
// STREAMED-NOT: region.unary exp
// STREAMED: region.yield
// STREAMED: plan.schedule @softmax variant "block"
// STREAMED: } form {
// STREAMED: plan.schedule @softmax variant "chunks"
// STREAMED-NOT: form
// STREAMED: plan.schedule @softmax variant "lanes_any"
// STREAMED: plan.schedule @softmax variant "block_any"
// STREAMED: } form {
// STREAMED: plan.schedule @softmax variant "any"
// STREAMED-NOT: form
