/* Calls that were checked once, read and launched without Python in between.
 *
 * polyc.runtime.repeated says what a call like one before is; this is the same for tensors of a
 * library with DLPack's exchange interface (DLPack 1.3, DLPackExchangeAPI).  Whatever is unlike all
 * that is kept here goes to a function of Python's, which knows more.  Nothing is linked but
 * Python's stable interface of 3.11: functions of the driver come as addresses.
 */

#include "calls.h"

enum { VERSION = 2 };

/* What a call returns: the output, a tuple of them, or a list. */
enum { ONE, TUPLE, LIST };

/* What is called: calls that are known are run here, and all others by the method `called` of the
 * class, which is Python's. */
typedef struct {
    PyObject_HEAD
    Calls *given, *fresh;
    int returns;
} Called;

static PyObject *name_of_out, *name_of_called;

static int called_traverse(PyObject *self, visitproc visit, void *arg)
{
    Called *called = (Called *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(called->given);
    Py_VISIT(called->fresh);
    return 0;
}

static int called_clear(PyObject *self)
{
    Called *called = (Called *)self;
    Py_CLEAR(called->given);
    Py_CLEAR(called->fresh);
    return 0;
}

static void called_free(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    called_clear(self);
    free_object(self);
}

/* The outputs as they are returned; takes them. */
static PyObject *returned(int returns, PyObject **outputs, int count)
{
    if (returns == ONE)
        return outputs[0];
    PyObject *made = returns == LIST ? PyList_New(count) : PyTuple_New(count);
    for (int i = 0; i < count; i++) {
        if (!made)
            Py_DECREF(outputs[i]);
        else if (returns == LIST)
            PyList_SetItem(made, i, outputs[i]);
        else
            PyTuple_SetItem(made, i, outputs[i]);
    }
    return made;
}

/* The value of `out`, where it is all that is given by name and not None; NULL without an error. */
static PyObject *out_of(PyObject *named)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (!PyDict_Next(named, &at, &key, &value) || value == Py_None)
        return NULL;
    if (key != name_of_out && PyUnicode_CompareWithASCIIString(key, "out"))
        return NULL;
    return PyDict_Next(named, &at, &key, &value) ? NULL : value;
}

static PyObject *called_call(PyObject *self, PyObject *args, PyObject *named)
{
    Called *called = (Called *)self;
    PyObject *objects[MOST], *out = NULL;
    int plain = !named || !PyDict_Size(named);
    Calls *calls = plain ? called->fresh : called->given;
    if (calls) {
        int inputs = inputs_of(calls), outputs = outputs_of(calls), known = 0;
        Py_ssize_t several = 0;
        plain = plain || (out = out_of(named)) != NULL;
        if (plain && PyTuple_Size(args) == inputs) {
            for (int i = 0; i < inputs; i++)
                objects[i] = PyTuple_GetItem(args, i);
            if (out && outputs == 1 && is_tensor(calls, out)) {
                objects[inputs] = out;
                several = 1;
            } else if (out && PyTuple_CheckExact(out)) {
                several = PyTuple_Size(out);
                for (int i = 0; several == outputs && i < outputs; i++)
                    objects[inputs + i] = PyTuple_GetItem(out, i);
            } else if (out && PyList_CheckExact(out)) {
                several = PyList_Size(out);
                for (int i = 0; several == outputs && i < outputs; i++)
                    objects[inputs + i] = PyList_GetItem(out, i);
            }
            if (!out || several == outputs) {
                /* Another thread may set other calls, or change a list, while it is inside. */
                int returns = called->returns;
                Py_INCREF((PyObject *)calls);
                for (int i = 0; out && i < outputs; i++)
                    Py_INCREF(objects[inputs + i]);
                known = run_known(calls, objects);
                for (int i = 0; out && known != 1 && i < outputs; i++)
                    Py_DECREF(objects[inputs + i]);
                Py_DECREF((PyObject *)calls);
                if (known < 0)
                    return NULL;
                if (known)
                    return returned(returns, objects + inputs, outputs);
            }
        }
    }
    PyObject *slow = PyObject_GetAttr(self, name_of_called);
    if (!slow)
        return NULL;
    PyObject *found = PyObject_Call(slow, args, named);
    Py_DECREF(slow);
    return found;
}

/* known_as(given, fresh, returns): from now on these calls are looked at first; None for none. */
static PyObject *called_known_as(PyObject *self, PyObject *args)
{
    Called *called = (Called *)self;
    PyObject *both[2], *old;
    int returns;
    if (!PyArg_ParseTuple(args, "OOi", &both[0], &both[1], &returns))
        return NULL;
    for (int i = 0; i < 2; i++) {
        if (both[i] == Py_None)
            both[i] = NULL;
        else if (Py_TYPE(both[i]) != calls_type) {
            PyErr_SetString(PyExc_TypeError, "calls are polyc_fast.Calls");
            return NULL;
        } else if (are_given((Calls *)both[i]) != !i || returns < ONE || returns > LIST ||
                   (returns == ONE && outputs_of((Calls *)both[i]) != 1)) {
            PyErr_SetString(PyExc_ValueError, "such calls return something else");
            return NULL;
        }
    }
    called->returns = returns;
    for (int i = 0; i < 2; i++) {
        Calls **place = i ? &called->fresh : &called->given;
        old = (PyObject *)*place;
        Py_XINCREF(both[i]);
        *place = (Calls *)both[i];
        Py_XDECREF(old);
    }
    Py_RETURN_NONE;
}

static PyMethodDef called_methods[] = {
    {"known_as", called_known_as, METH_VARARGS,
     "known_as(given, fresh, returns): the calls that are looked at first, or None."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot called_slots[] = {
    {Py_tp_dealloc, called_free},
    {Py_tp_traverse, called_traverse},
    {Py_tp_clear, called_clear},
    {Py_tp_call, called_call},
    {Py_tp_methods, called_methods},
    {Py_tp_doc, "A base of what is called: see polyc.runtime.compiled_calls."},
    {0, NULL},
};

static PyType_Spec called_spec = {"polyc_fast.Called", sizeof(Called), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
                                  called_slots};

static PyMethodDef functions[] = {
    {"set_layout", set_layout, METH_VARARGS,
     "set_layout(object, storage, autograd, object_bytes, storage_bytes, autograd_bytes, "
     "autograd_class): see polyc.runtime.torch_layout."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "polyc_fast", "Calls of polyc's programs without Python in between.", -1,
    functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_polyc_fast(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyObject *called = PyType_FromSpec(&called_spec);
    name_of_out = PyUnicode_InternFromString("out");
    name_of_called = PyUnicode_InternFromString("called");
    if (!module || !called || !name_of_out || !name_of_called || add_calls(module) ||
        PyModule_AddObjectRef(module, "Called", called) ||
        PyModule_AddIntConstant(module, "VERSION", VERSION) ||
        PyModule_AddIntConstant(module, "TENSORS", MOST)) {
        Py_XDECREF(module);
        Py_XDECREF(called);
        return NULL;
    }
    Py_DECREF(called);
    return module;
}
