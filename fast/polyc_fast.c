/* Calls that were checked once, read and launched without Python in between.
 *
 * polyc.runtime.repeated says what a call like one before is; this is the same for tensors of a
 * library with DLPack's exchange interface (DLPack 1.3, DLPackExchangeAPI).  Whatever is unlike all
 * that is kept here goes to `fallback`, a function of Python's, which knows more.  Nothing is linked
 * but Python's stable interface of 3.11: functions of the driver come as addresses.
 */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { MOST = 128, MAPS = 32, KEPT = 64, MAP_BYTES = 128 };

/* DLTensor and DLPackExchangeAPI. */

typedef struct {
    int32_t type, id;
} Device;

typedef struct {
    void *data;
    Device device;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t offset;
} View;

typedef struct Header {
    uint32_t major, minor;
    struct Header *previous;
} Header;

typedef struct {
    Header header;
    void *allocate, *from_object, *to_object;
    int (*view)(void *, View *);
    int (*stream)(int32_t, int32_t, void **);
} Exchange;

enum { CUDA = 2 };

/* CUlaunchConfig. */
typedef struct {
    unsigned grid[3], block[3], shared;
    void *stream, *attributes;
    unsigned count;
} Config;

typedef int (*Launch)(const Config *, void *, void **, void **);
typedef int (*Asks)(void **);
typedef int (*Replace)(void *, void *);
typedef PyObject *(*Getter)(PyObject *, PyObject *, PyObject *);
typedef PyObject *(*Method)(PyObject *, PyObject *);

/* What a tensor of a call shows; `shape` has `ndim` sizes. */
typedef struct {
    Device device;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape;
    uint64_t residue;
} Shown;

enum { CONSTANT, POINTER, MAP };

typedef struct {
    int kind, source;
    void *address;
    unsigned char map[MAP_BYTES];
} Parameter;

/* A call that was checked.  Whoever runs it holds it: it may be forgotten meanwhile. */
typedef struct {
    PyObject_HEAD
    PyObject *owner, *fresh;
    int given, parameters, maps, index;
    Shown *shown;
    uint64_t *sizes;
    Parameter *parameter;
    void *context, *function;
    Launch launch;
    Replace replace;
    Config config;
} Kept;

typedef struct {
    PyObject_HEAD
    int inputs, outputs, given, used, last, next;
    uint64_t period;
    PyObject *tensor, *parameter, *fallback, *failed, *empty, *gradient;
    Exchange *exchange;
    Getter gradient_of;
    Method negated;
    Asks asks;
    Kept *kept[KEPT];
    PyObject *seen[MOST];
    void *seen_at[MOST];
} Calls;

static PyTypeObject *kept_type;

static void kept_free(PyObject *self)
{
    Kept *kept = (Kept *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (kept->shown)
        for (int i = 0; i < kept->given; i++)
            PyMem_Free(kept->shown[i].shape);
    PyMem_Free(kept->shown);
    PyMem_Free(kept->sizes);
    PyMem_Free(kept->parameter);
    Py_XDECREF(kept->owner);
    Py_XDECREF(kept->fresh);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static void forget_all(Calls *calls)
{
    for (int i = 0; i < KEPT; i++)
        Py_CLEAR(calls->kept[i]);
    for (int i = 0; i < MOST; i++)
        Py_CLEAR(calls->seen[i]);
    calls->used = calls->last = calls->next = 0;
}

static void calls_free(PyObject *self)
{
    Calls *calls = (Calls *)self;
    PyTypeObject *type = Py_TYPE(self);
    forget_all(calls);
    Py_XDECREF(calls->tensor);
    Py_XDECREF(calls->parameter);
    Py_XDECREF(calls->fallback);
    Py_XDECREF(calls->failed);
    Py_XDECREF(calls->empty);
    Py_XDECREF(calls->gradient);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static Exchange *exchange_of(PyObject *capsule)
{
    Header *found = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (!found)
        return NULL;
    while (found && found->major != 1)
        found = found->previous;
    Exchange *exchange = (Exchange *)found;
    if (!exchange || !exchange->view || !exchange->stream) {
        PyErr_SetString(PyExc_ValueError, "the exchange interface is not that of DLPack 1");
        return NULL;
    }
    return exchange;
}

static PyObject *calls_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    int inputs, outputs, given;
    unsigned long long period, asks;
    PyObject *tensor, *parameter, *capsule, *gradient, *negated, *empty, *fallback, *failed;
    if (!PyArg_ParseTuple(args, "iipKOOOOOOOOK", &inputs, &outputs, &given, &period, &tensor,
                          &parameter, &capsule, &gradient, &negated, &empty, &fallback, &failed,
                          &asks))
        return NULL;
    if (inputs < 0 || outputs < 0 || inputs + outputs > MOST || !period) {
        PyErr_SetString(PyExc_ValueError, "too many tensors");
        return NULL;
    }
    Exchange *exchange = exchange_of(capsule);
    if (!exchange)
        return NULL;
    Getter getter = (Getter)PyType_GetSlot(Py_TYPE(gradient), Py_tp_descr_get);
    if (!getter || PyCFunction_GetFlags(negated) != METH_NOARGS) {
        PyErr_Clear();
        PyErr_SetString(PyExc_TypeError, "requires_grad and is_neg are not those of PyTorch");
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Calls *calls = (Calls *)allocate(type, 0);
    if (!calls)
        return NULL;
    calls->inputs = inputs;
    calls->outputs = outputs;
    calls->given = given;
    calls->period = period;
    calls->exchange = exchange;
    calls->gradient_of = getter;
    calls->negated = (Method)PyCFunction_GetFunction(negated);
    calls->asks = (Asks)(uintptr_t)asks;
    Py_INCREF(calls->tensor = tensor);
    Py_INCREF(calls->parameter = parameter);
    Py_INCREF(calls->gradient = gradient);
    Py_INCREF(calls->empty = empty);
    Py_INCREF(calls->fallback = fallback);
    Py_INCREF(calls->failed = failed);
    return (PyObject *)calls;
}

/* The tensors of a list or a tuple; whether it has as many as it should. */
static int take(PyObject *from, int count, PyObject **into)
{
    if (PyTuple_Check(from)) {
        if (PyTuple_Size(from) != count)
            return 0;
        for (int i = 0; i < count; i++)
            into[i] = PyTuple_GetItem(from, i);
        return 1;
    }
    if (!PyList_Check(from) || PyList_Size(from) != count)
        return 0;
    for (int i = 0; i < count; i++)
        into[i] = PyList_GetItem(from, i);
    return 1;
}

/* Whether a tensor's elements are dense in row-major order. */
static int dense(const View *view)
{
    int64_t step = 1;
    if (!view->strides)
        return 1;
    for (int i = view->ndim - 1; i >= 0; i--) {
        if (!view->shape[i])
            return 1;
        if (view->shape[i] != 1 && view->strides[i] != step)
            step = -1;
        if (step < 0)
            break;
        step *= view->shape[i];
    }
    if (step >= 0)
        return 1;
    for (int i = 0; i < view->ndim; i++)
        if (!view->shape[i])
            return 1;
    return 0;
}

static int alike(const Shown *shown, const View *view)
{
    if (shown->device.id != view->device.id || shown->device.type != view->device.type ||
        shown->ndim != view->ndim || shown->code != view->code || shown->bits != view->bits ||
        shown->lanes != view->lanes)
        return 0;
    return !memcmp(shown->shape, view->shape, sizeof(int64_t) * (size_t)view->ndim);
}

static uint64_t address_of(const View *view)
{
    return (uint64_t)(uintptr_t)view->data + view->offset;
}

static int fits(const Calls *calls, const Kept *kept, const View *views, int count)
{
    for (int i = 0; i < count; i++)
        if (!alike(&kept->shown[i], &views[i]) ||
            kept->shown[i].residue != address_of(&views[i]) % calls->period)
            return 0;
    return 1;
}

/* Read tensors; whether each is plain: PyTorch's own, dense, not negated, without a gradient. */
static int read_all(Calls *calls, PyObject **objects, View *views, int count)
{
    int asked = 0;
    for (int i = 0; i < count; i++) {
        PyObject *one = objects[i];
        PyObject *type = (PyObject *)Py_TYPE(one);
        if (type != calls->tensor && type != calls->parameter)
            return 0;
        PyObject *gradient = calls->gradient_of(calls->gradient, one, type);
        Py_XDECREF(gradient);
        if (gradient != Py_False || calls->exchange->view(one, &views[i]))
            return 0;
        /* This question costs more than all others: a tensor that was asked, and has not moved, is
         * not asked again. */
        if (calls->seen[i] && calls->seen_at[i] == views[i].data &&
            PyWeakref_GetObject(calls->seen[i]) == one)
            continue;
        PyObject *negated = calls->negated(one, NULL);
        Py_XDECREF(negated);
        if (negated != Py_False)
            return 0;
        PyObject *seen = PyWeakref_NewRef(one, NULL), *old = calls->seen[i];
        if (!seen)
            return 0;
        calls->seen[i] = seen;
        calls->seen_at[i] = views[i].data;
        Py_XDECREF(old);
        asked = 1;
    }
    /* Other threads ran in between, and a view has its shape from the tensor. */
    for (int i = 0; asked && i < count; i++)
        if (calls->exchange->view(objects[i], &views[i]))
            return 0;
    for (int i = 0; i < count; i++)
        if (views[i].device.type != CUDA || !dense(&views[i]))
            return 0;
    return 1;
}

static int apart(const Kept *kept, const View *views, int inputs, int count)
{
    for (int i = inputs; i < count; i++) {
        uint64_t start = address_of(&views[i]), end = start + kept->sizes[i];
        for (int j = 0; j < i; j++) {
            uint64_t other = address_of(&views[j]);
            if (start < other + kept->sizes[j] && other < end)
                return 0;
        }
    }
    return 1;
}

/* Launch at these addresses: the driver's answer, or -1 where another context is current. */
static int launched(const Calls *calls, const Kept *kept, const View *views, int count)
{
    void *stream = NULL, *context = NULL, *slots[MOST], *parameters[4 * MOST];
    unsigned char space[MAPS * MAP_BYTES + 64];
    unsigned char *map = space + (-(uintptr_t)space & 63);
    Config config = kept->config;
    int status = 0;
    if (calls->exchange->stream(CUDA, kept->index, &stream)) {
        PyErr_Clear();
        return -1;
    }
    if (calls->asks(&context) || context != kept->context)
        return -1;
    config.stream = stream;
    for (int i = 0; i < count; i++)
        slots[i] = (void *)(uintptr_t)address_of(&views[i]);
    Py_BEGIN_ALLOW_THREADS
    for (int i = 0; i < kept->parameters && !status; i++) {
        const Parameter *one = &kept->parameter[i];
        if (one->kind == CONSTANT)
            parameters[i] = one->address;
        else if (one->kind == POINTER)
            parameters[i] = &slots[one->source];
        else {
            memcpy(map, one->map, MAP_BYTES);
            status = kept->replace(map, slots[one->source]);
            parameters[i] = map;
            map += MAP_BYTES;
        }
    }
    status = status ? -1 : kept->launch(&config, kept->function, parameters, NULL);
    Py_END_ALLOW_THREADS
    return status;
}

static PyObject *otherwise(Calls *calls, PyObject *const *args, Py_ssize_t count)
{
    PyErr_Clear();
    if (count == 2)
        return PyObject_CallFunctionObjArgs(calls->fallback, (PyObject *)calls, args[0], args[1],
                                            NULL);
    if (count == 1)
        return PyObject_CallFunctionObjArgs(calls->fallback, (PyObject *)calls, args[0], NULL);
    PyErr_SetString(PyExc_TypeError, "run takes inputs, and outputs where they are given");
    return NULL;
}

/* New outputs behind the views of the inputs, as a list; NULL where there are none. */
static PyObject *allocated(Calls *calls, const Kept *kept, View *views)
{
    PyObject *made = PyList_New(calls->outputs);
    if (!made)
        return NULL;
    for (int i = 0; i < calls->outputs; i++) {
        PyObject *how = PyTuple_GetItem(kept->fresh, i);
        PyObject *one = PyObject_Call(calls->empty, PyTuple_GetItem(how, 0), PyTuple_GetItem(how, 1));
        View *view = &views[calls->inputs + i];
        if (!one || PyList_SetItem(made, i, one) || (PyObject *)Py_TYPE(one) != calls->tensor ||
            calls->exchange->view(one, view) || address_of(view) % calls->period) {
            Py_DECREF(made);
            return NULL;
        }
    }
    return made;
}

static PyObject *calls_run(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Calls *calls = (Calls *)self;
    PyObject *objects[MOST], *result;
    View views[MOST];
    int given = calls->inputs + (calls->given ? calls->outputs : 0), which;
    int all = calls->inputs + calls->outputs;
    if (count != 1 + calls->given || !calls->used || !take(args[0], calls->inputs, objects) ||
        (calls->given && !take(args[1], calls->outputs, objects + calls->inputs)) ||
        !read_all(calls, objects, views, given))
        return otherwise(calls, args, count);
    which = calls->last;
    for (int i = 0; i <= calls->used; i++) {
        if (i == calls->used)
            return otherwise(calls, args, count);
        if (fits(calls, calls->kept[which], views, given))
            break;
        which = which + 1 < calls->used ? which + 1 : 0;
    }
    calls->last = which;
    Kept *kept = calls->kept[which];
    Py_INCREF((PyObject *)kept);
    result = calls->given ? args[1] : allocated(calls, kept, views);
    if (calls->given)
        Py_INCREF(result);
    int status = -1;
    if (result && apart(kept, views, calls->inputs, all))
        status = launched(calls, kept, views, all);
    if (!status) {
        Py_DECREF((PyObject *)kept);
        return result;
    }
    Py_XDECREF(result);
    if (status < 0) {
        Py_DECREF((PyObject *)kept);
        return otherwise(calls, args, count);
    }
    result = PyObject_CallFunction(calls->failed, "Oi", kept->owner, status);
    Py_DECREF((PyObject *)kept);
    if (result) {
        Py_DECREF(result);
        PyErr_SetString(PyExc_RuntimeError, "the driver's answer was no error");
    }
    return NULL;
}

static int read_parameters(Kept *kept, PyObject *given, int tensors)
{
    kept->parameters = (int)PyTuple_Size(given);
    if (kept->parameters < 0 || kept->parameters > 4 * MOST)
        return 0;
    kept->parameter = PyMem_Calloc((size_t)kept->parameters + 1, sizeof(Parameter));
    if (!kept->parameter)
        return 0;
    for (int i = 0; i < kept->parameters; i++) {
        Parameter *one = &kept->parameter[i];
        unsigned long long address;
        const char *map;
        Py_ssize_t size;
        PyObject *each = PyTuple_GetItem(given, i);
        if (!PyTuple_Check(each) || !PyArg_ParseTuple(each, "iiKy#", &one->kind,
                                                       &one->source, &address, &map, &size))
            return 0;
        one->address = (void *)(uintptr_t)address;
        if (one->kind == CONSTANT)
            continue;
        if (one->source < 0 || one->source >= tensors)
            return 0;
        if (one->kind == MAP) {
            if (size != MAP_BYTES || ++kept->maps > MAPS)
                return 0;
            memcpy(one->map, map, MAP_BYTES);
        }
    }
    return 1;
}

/* keep(tensors, sizes, index, context, launch, function, replace, config, parameters, fresh, owner)
 *
 * Whether it is kept: not, where the tensors are not plain.  `owner` keeps everything that has an
 * address here. */
static PyObject *calls_keep(PyObject *self, PyObject *args)
{
    Calls *calls = (Calls *)self;
    PyObject *tensors, *sizes, *parameters, *fresh, *owner, *objects[MOST];
    unsigned long long context, launch, function, replace;
    const char *config;
    Py_ssize_t size;
    int index, given = calls->inputs + (calls->given ? calls->outputs : 0);
    int all = calls->inputs + calls->outputs;
    View views[MOST];
    if (!PyArg_ParseTuple(args, "O!O!iKKKKy#O!O!O", &PyTuple_Type, &tensors, &PyTuple_Type, &sizes,
                          &index, &context, &launch, &function, &replace, &config, &size,
                          &PyTuple_Type, &parameters, &PyTuple_Type, &fresh, &owner))
        return NULL;
    if (size != sizeof(Config) || PyTuple_Size(sizes) != all ||
        (!calls->given && PyTuple_Size(fresh) != calls->outputs)) {
        PyErr_SetString(PyExc_ValueError, "the call is described in another way");
        return NULL;
    }
    if (!take(tensors, given, objects) || !read_all(calls, objects, views, given)) {
        PyErr_Clear();
        Py_RETURN_FALSE;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(kept_type, Py_tp_alloc);
    Kept *kept = (Kept *)allocate(kept_type, 0);
    if (!kept)
        return NULL;
    Py_INCREF(kept->owner = owner);
    Py_INCREF(kept->fresh = fresh);
    kept->index = index;
    kept->context = (void *)(uintptr_t)context;
    kept->function = (void *)(uintptr_t)function;
    kept->launch = (Launch)(uintptr_t)launch;
    kept->replace = (Replace)(uintptr_t)replace;
    memcpy(&kept->config, config, sizeof(Config));
    kept->shown = PyMem_Calloc((size_t)given + 1, sizeof(Shown));
    kept->sizes = PyMem_Calloc((size_t)all + 1, sizeof(uint64_t));
    if (!kept->shown || !kept->sizes || !read_parameters(kept, parameters, all))
        goto wrong;
    kept->given = given;
    for (int i = 0; i < given; i++) {
        Shown *shown = &kept->shown[i];
        size_t bytes = sizeof(int64_t) * (size_t)views[i].ndim;
        shown->device = views[i].device;
        shown->ndim = views[i].ndim;
        shown->code = views[i].code;
        shown->bits = views[i].bits;
        shown->lanes = views[i].lanes;
        shown->residue = address_of(&views[i]) % calls->period;
        if (!(shown->shape = PyMem_Malloc(bytes + 1)))
            goto wrong;
        memcpy(shown->shape, views[i].shape, bytes);
    }
    for (int i = 0; i < all; i++)
        kept->sizes[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(sizes, i));
    if (PyErr_Occurred())
        goto wrong;
    Kept *old = calls->kept[calls->next];
    calls->kept[calls->next] = kept;
    calls->last = calls->next;
    calls->next = (calls->next + 1) % KEPT;
    if (calls->used < KEPT)
        calls->used++;
    Py_XDECREF((PyObject *)old);
    Py_RETURN_TRUE;
wrong:
    Py_DECREF((PyObject *)kept);
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "the call is described in another way");
    return NULL;
}

static PyObject *calls_forget(PyObject *self, PyObject *unused)
{
    forget_all((Calls *)self);
    Py_RETURN_NONE;
}

static PyMethodDef calls_methods[] = {
    {"run", (PyCFunction)(void (*)(void))calls_run, METH_FASTCALL,
     "run(inputs[, outputs]): the outputs, or what the fallback answers."},
    {"keep", calls_keep, METH_VARARGS, "Keep a call that was checked; whether it can be."},
    {"forget", calls_forget, METH_NOARGS, "Keep no call."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot calls_slots[] = {
    {Py_tp_new, calls_new},
    {Py_tp_dealloc, calls_free},
    {Py_tp_methods, calls_methods},
    {Py_tp_doc, "Calls of one kind that were checked: see polyc.runtime.repeated."},
    {0, NULL},
};

static PyType_Spec calls_spec = {"polyc_fast.Calls", sizeof(Calls), 0, Py_TPFLAGS_DEFAULT,
                                 calls_slots};

static PyType_Slot kept_slots[] = {{Py_tp_dealloc, kept_free}, {0, NULL}};

static PyType_Spec kept_spec = {"polyc_fast.Kept", sizeof(Kept), 0, Py_TPFLAGS_DEFAULT, kept_slots};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "polyc_fast", "Calls of polyc's programs without Python in between.", -1,
    NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_polyc_fast(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyObject *calls = PyType_FromSpec(&calls_spec);
    kept_type = (PyTypeObject *)PyType_FromSpec(&kept_spec);
    if (!module || !calls || !kept_type || PyModule_AddObjectRef(module, "Calls", calls) ||
        PyModule_AddIntConstant(module, "VERSION", 1) ||
        PyModule_AddIntConstant(module, "TENSORS", MOST)) {
        Py_XDECREF(module);
        Py_XDECREF(calls);
        return NULL;
    }
    Py_DECREF(calls);
    return module;
}
