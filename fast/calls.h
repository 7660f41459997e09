/* Calls of one kind that were checked, for those like them. */

#ifndef POLYC_CALLS_H
#define POLYC_CALLS_H

#include "tensors.h"

/* As many inputs and outputs: those are given, or else allocated. */
typedef struct Calls Calls;

/* Make the types, and add what is public to the module; -1 with an error. */
int add_calls(PyObject *module);

/* The type of `Calls`. */
extern PyTypeObject *calls_type;

/* Give back the memory of an object whose references are cleared, and that to its type. */
void free_object(PyObject *self);

int inputs_of(const Calls *calls);
int outputs_of(const Calls *calls);
int are_given(const Calls *calls);
int is_tensor(const Calls *calls, PyObject *one);

/* Run on inputs, and on outputs behind them where they are given; `objects` has room for all, and
 * the allocated ones are there afterwards, owned by the caller.  1 where it ran, 0 where no such
 * call is known and nothing happened, -1 with an error. */
int run_known(Calls *calls, PyObject **objects);

#endif
