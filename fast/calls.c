#include "calls.h"

enum { MAPS = 32, KEPT = 64, MAP_BYTES = 128 };

/* CUlaunchConfig. */
typedef struct {
    unsigned grid[3], block[3], shared;
    void *stream, *attributes;
    unsigned count;
} Config;

typedef int (*Launch)(const Config *, void *, void **, void **);
typedef int (*Asks)(void **);
typedef int (*Replace)(void *, void *);

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

/* A parameter of the kernel.  A map is that of the tensor at `last`, and aligned as the driver
 * wants it where it is launched. */
typedef struct {
    int kind, source;
    void *address;
    uint64_t last;
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

/* `same` is the call that ran last, where each of its tensors has its serial in `serials`. */
struct Calls {
    PyObject_HEAD
    int inputs, outputs, given, used, last, next;
    uint64_t period, mask;
    Library library;
    PyObject *fallback, *failed, *empty;
    Asks asks;
    Kept *kept[KEPT];
    Kept *same;
    uint64_t serials[MOST];
};

PyTypeObject *calls_type;
static PyTypeObject *kept_type;

int inputs_of(const Calls *calls) { return calls->inputs; }
int outputs_of(const Calls *calls) { return calls->outputs; }
int are_given(const Calls *calls) { return calls->given; }

int is_tensor(const Calls *calls, PyObject *one)
{
    PyObject *type = (PyObject *)Py_TYPE(one);
    return type == calls->library.tensor || type == calls->library.parameter;
}

void free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc of_type = (freefunc)PyType_GetSlot(type, Py_tp_free);
    of_type(self);
    Py_DECREF(type);
}

static PyObject *allocate(PyTypeObject *type)
{
    allocfunc of_type = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return of_type(type, 0);
}

static int kept_traverse(PyObject *self, visitproc visit, void *arg)
{
    Kept *kept = (Kept *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(kept->owner);
    Py_VISIT(kept->fresh);
    return 0;
}

static int kept_clear(PyObject *self)
{
    Kept *kept = (Kept *)self;
    Py_CLEAR(kept->owner);
    Py_CLEAR(kept->fresh);
    return 0;
}

static void kept_free(PyObject *self)
{
    Kept *kept = (Kept *)self;
    PyObject_GC_UnTrack(self);
    if (kept->shown)
        for (int i = 0; i < kept->given; i++)
            PyMem_Free(kept->shown[i].shape);
    PyMem_Free(kept->shown);
    PyMem_Free(kept->sizes);
    PyMem_Free(kept->parameter);
    kept_clear(self);
    free_object(self);
}

static int calls_traverse(PyObject *self, visitproc visit, void *arg)
{
    Calls *calls = (Calls *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(calls->library.tensor);
    Py_VISIT(calls->library.parameter);
    Py_VISIT(calls->library.gradient);
    Py_VISIT(calls->fallback);
    Py_VISIT(calls->failed);
    Py_VISIT(calls->empty);
    for (int i = 0; i < KEPT; i++)
        Py_VISIT(calls->kept[i]);
    return 0;
}

static void forget_all(Calls *calls)
{
    calls->used = calls->last = calls->next = 0;
    calls->same = NULL;
    for (int i = 0; i < KEPT; i++)
        Py_CLEAR(calls->kept[i]);
}

static int calls_clear(PyObject *self)
{
    Calls *calls = (Calls *)self;
    forget_all(calls);
    Py_CLEAR(calls->library.tensor);
    Py_CLEAR(calls->library.parameter);
    Py_CLEAR(calls->library.gradient);
    Py_CLEAR(calls->fallback);
    Py_CLEAR(calls->failed);
    Py_CLEAR(calls->empty);
    return 0;
}

static void calls_free(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    calls_clear(self);
    free_object(self);
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
    if (inputs < 0 || outputs < 0 || inputs > MOST || outputs > MOST - inputs || !period) {
        PyErr_SetString(PyExc_ValueError, "too many tensors");
        return NULL;
    }
    Exchange *exchange = exchange_of(capsule);
    if (!exchange)
        return NULL;
    Getter getter = (Getter)PyType_GetSlot(Py_TYPE(gradient), Py_tp_descr_get);
    if (!getter || !PyCFunction_Check(negated) || PyCFunction_GetFlags(negated) != METH_NOARGS) {
        PyErr_Clear();
        PyErr_SetString(PyExc_TypeError, "requires_grad and is_neg are not those of PyTorch");
        return NULL;
    }
    Calls *calls = (Calls *)allocate(type);
    if (!calls)
        return NULL;
    calls->inputs = inputs;
    calls->outputs = outputs;
    calls->given = given;
    calls->period = period;
    calls->mask = period & (period - 1) ? 0 : period - 1;
    calls->library.exchange = exchange;
    calls->library.gradient_of = getter;
    calls->library.negated = (Method)PyCFunction_GetFunction(negated);
    calls->asks = (Asks)(uintptr_t)asks;
    Py_INCREF(calls->library.tensor = tensor);
    Py_INCREF(calls->library.parameter = parameter);
    Py_INCREF(calls->library.gradient = gradient);
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

static uint64_t residue_of(const Calls *calls, uint64_t address)
{
    return calls->mask ? address & calls->mask : address % calls->period;
}

static int fits(const Calls *calls, const Kept *kept, const Read *reads, int count)
{
    for (int i = 0; i < count; i++) {
        const Shown *shown = &kept->shown[i];
        const Read *read = &reads[i];
        if (shown->residue != residue_of(calls, read->address) ||
            shown->device.id != read->device.id || shown->device.type != read->device.type ||
            shown->ndim != read->ndim || shown->code != read->code || shown->bits != read->bits ||
            shown->lanes != read->lanes)
            return 0;
        for (int j = 0; j < read->ndim; j++)
            if (shown->shape[j] != read->shape[j])
                return 0;
    }
    return 1;
}

/* Whether no output overlaps another tensor. */
static int apart(const Kept *kept, const Read *reads, int inputs, int count)
{
    for (int i = inputs; i < count; i++) {
        uint64_t start = reads[i].address, end = start + kept->sizes[i];
        for (int j = 0; j < i; j++) {
            uint64_t other = reads[j].address;
            if (start < other + kept->sizes[j] && other < end)
                return 0;
        }
    }
    return 1;
}

/* Launch at these addresses: the driver's answer, or -1 where another context is current, or
 * something cannot be said. */
static int launched(const Calls *calls, Kept *kept, const Read *reads, int count)
{
    void *stream = NULL, *context = NULL, *slots[MOST], *parameters[4 * MOST];
    unsigned char space[MAPS * MAP_BYTES + 64];
    unsigned char *map = space + (-(uintptr_t)space & 63);
    Config config = kept->config;
    int status;
    if (calls->asks(&context) || context != kept->context)
        return -1;
    if (calls->library.exchange->stream(CUDA, kept->index, &stream)) {
        PyErr_Clear();
        return -1;
    }
    config.stream = stream;
    for (int i = 0; i < count; i++)
        slots[i] = (void *)(uintptr_t)reads[i].address;
    for (int i = 0; i < kept->parameters; i++) {
        Parameter *one = &kept->parameter[i];
        if (one->kind == CONSTANT) {
            parameters[i] = one->address;
            continue;
        }
        if (one->kind == POINTER) {
            parameters[i] = &slots[one->source];
            continue;
        }
        memcpy(map, one->map, MAP_BYTES);
        if (one->last != reads[one->source].address) {
            if (kept->replace(map, slots[one->source]))
                return -1;
            memcpy(one->map, map, MAP_BYTES);
            one->last = reads[one->source].address;
        }
        parameters[i] = map;
        map += MAP_BYTES;
    }
    Py_BEGIN_ALLOW_THREADS
    status = kept->launch(&config, kept->function, parameters, NULL);
    Py_END_ALLOW_THREADS
    return status;
}

/* New outputs behind the inputs, read as well; whether there are some that will do. */
static int allocated(Calls *calls, const Kept *kept, PyObject **objects, Read *reads)
{
    for (int i = 0; i < calls->outputs; i++) {
        PyObject *how = PyTuple_GetItem(kept->fresh, i);
        PyObject *one = PyObject_Call(calls->empty, PyTuple_GetItem(how, 0), PyTuple_GetItem(how, 1));
        Read *read = &reads[calls->inputs + i];
        objects[calls->inputs + i] = one;
        if (!one || (PyObject *)Py_TYPE(one) != calls->library.tensor ||
            !read_new(&calls->library, one, read) || residue_of(calls, read->address)) {
            for (int j = 0; j <= i; j++)
                Py_CLEAR(objects[calls->inputs + j]);
            return 0;
        }
    }
    return 1;
}

/* 0, with what went wrong dropped, as whoever checks the call meets it again; -1 where it is no
 * exception but the end of the program, or a key that was pressed. */
static int unknown(void)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    PyErr_Clear();
    return 0;
}

int run_known(Calls *calls, PyObject **objects)
{
    Read reads[MOST];
    int all = calls->inputs + calls->outputs, given = calls->given ? all : calls->inputs;
    if (!calls->used || !read_all(&calls->library, objects, reads, given) || !calls->used)
        return unknown();
    Kept *kept = calls->same;
    for (int i = 0; kept && i < given; i++)
        if (reads[i].serial != calls->serials[i])
            kept = NULL;
    int same = kept != NULL;
    if (!same) {
        int which = calls->last;
        for (int i = 0; !kept; i++) {
            if (i == calls->used)
                return 0;
            if (fits(calls, calls->kept[which], reads, given))
                kept = calls->kept[which];
            else
                which = which + 1 < calls->used ? which + 1 : 0;
        }
        calls->last = which;
        calls->same = NULL;
    }
    Py_INCREF((PyObject *)kept);
    int status = -1, fresh = calls->outputs && !calls->given;
    if (!fresh || allocated(calls, kept, objects, reads)) {
        if ((same && !fresh) || apart(kept, reads, calls->inputs, all)) {
            if (!same) {
                calls->same = kept;
                for (int i = 0; i < given; i++)
                    if (!(calls->serials[i] = reads[i].serial))
                        calls->same = NULL;
            }
            status = launched(calls, kept, reads, all);
        }
        if (status && fresh)
            for (int i = calls->inputs; i < all; i++)
                Py_CLEAR(objects[i]);
    }
    if (status > 0) {
        PyObject *found = PyObject_CallFunction(calls->failed, "Oi", kept->owner, status);
        if (found) {
            Py_DECREF(found);
            PyErr_SetString(PyExc_RuntimeError, "the driver's answer was no error");
        }
    }
    Py_DECREF((PyObject *)kept);
    return status > 0 ? -1 : status ? unknown() : 1;
}

static PyObject *otherwise(Calls *calls, PyObject *const *args, Py_ssize_t count)
{
    if (count == 2)
        return PyObject_CallFunctionObjArgs(calls->fallback, (PyObject *)calls, args[0], args[1],
                                            NULL);
    if (count == 1)
        return PyObject_CallFunctionObjArgs(calls->fallback, (PyObject *)calls, args[0], NULL);
    PyErr_SetString(PyExc_TypeError, "run takes inputs, and outputs where they are given");
    return NULL;
}

static PyObject *calls_run(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Calls *calls = (Calls *)self;
    PyObject *objects[MOST];
    int known = 0, given = calls->inputs + (calls->given ? calls->outputs : 0);
    if (count == 1 + calls->given && take(args[0], calls->inputs, objects) &&
        (!calls->given || take(args[1], calls->outputs, objects + calls->inputs))) {
        /* Other threads may change a list meanwhile. */
        for (int i = 0; i < given; i++)
            Py_INCREF(objects[i]);
        known = run_known(calls, objects);
        for (int i = 0; i < given; i++)
            Py_DECREF(objects[i]);
    }
    if (known < 0)
        return NULL;
    if (!known)
        return otherwise(calls, args, count);
    if (calls->given) {
        Py_INCREF(args[1]);
        return args[1];
    }
    PyObject *made = PyList_New(calls->outputs);
    for (int i = 0; i < calls->outputs; i++) {
        PyObject *one = objects[calls->inputs + i];
        if (made)
            PyList_SetItem(made, i, one);
        else
            Py_DECREF(one);
    }
    return made;
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
        if (!PyTuple_Check(each) || !PyArg_ParseTuple(each, "iiKy#", &one->kind, &one->source,
                                                      &address, &map, &size))
            return 0;
        one->address = (void *)(uintptr_t)address;
        if (one->kind == CONSTANT)
            continue;
        if ((one->kind != POINTER && one->kind != MAP) || one->source < 0 ||
            one->source >= tensors)
            return 0;
        if (one->kind == MAP) {
            if (size != MAP_BYTES || ++kept->maps > MAPS)
                return 0;
            memcpy(one->map, map, MAP_BYTES);
            one->last = UINT64_MAX;
        }
    }
    return !kept->maps || kept->replace;
}

/* Whether the outputs that calls allocate are told: arguments by place and by name for each. */
static int tells_outputs(PyObject *fresh, int outputs)
{
    if (PyTuple_Size(fresh) != outputs)
        return 0;
    for (int i = 0; i < outputs; i++) {
        PyObject *how = PyTuple_GetItem(fresh, i);
        if (!PyTuple_Check(how) || PyTuple_Size(how) != 2 ||
            !PyTuple_Check(PyTuple_GetItem(how, 0)) || !PyDict_Check(PyTuple_GetItem(how, 1)))
            return 0;
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
    Read reads[MOST];
    if (!PyArg_ParseTuple(args, "O!O!iKKKKy#O!O!O", &PyTuple_Type, &tensors, &PyTuple_Type, &sizes,
                          &index, &context, &launch, &function, &replace, &config, &size,
                          &PyTuple_Type, &parameters, &PyTuple_Type, &fresh, &owner))
        return NULL;
    if (size != sizeof(Config) || PyTuple_Size(sizes) != all || !launch ||
        (!calls->given && !tells_outputs(fresh, calls->outputs))) {
        PyErr_SetString(PyExc_ValueError, "the call is described in another way");
        return NULL;
    }
    Kept *kept = (Kept *)allocate(kept_type);
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
    for (int i = 0; i < all; i++)
        kept->sizes[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(sizes, i));
    if (PyErr_Occurred())
        goto wrong;
    /* The last that runs Python: what is read is there until then. */
    if (!take(tensors, given, objects) || !read_all(&calls->library, objects, reads, given)) {
        PyErr_Clear();
        Py_DECREF((PyObject *)kept);
        Py_RETURN_FALSE;
    }
    kept->given = given;
    for (int i = 0; i < given; i++) {
        Shown *shown = &kept->shown[i];
        size_t bytes = sizeof(int64_t) * (size_t)reads[i].ndim;
        shown->device = reads[i].device;
        shown->ndim = reads[i].ndim;
        shown->code = reads[i].code;
        shown->bits = reads[i].bits;
        shown->lanes = reads[i].lanes;
        shown->residue = residue_of(calls, reads[i].address);
        if (!(shown->shape = PyMem_Malloc(bytes + 1)))
            goto wrong;
        memcpy(shown->shape, reads[i].shape, bytes);
    }
    Kept *old = calls->kept[calls->next];
    calls->kept[calls->next] = kept;
    calls->last = calls->next;
    calls->next = (calls->next + 1) % KEPT;
    calls->same = NULL;
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
    {Py_tp_traverse, calls_traverse},
    {Py_tp_clear, calls_clear},
    {Py_tp_methods, calls_methods},
    {Py_tp_doc, "Calls of one kind that were checked: see polyc.runtime.repeated."},
    {0, NULL},
};

static PyType_Spec calls_spec = {"polyc_fast.Calls", sizeof(Calls), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, calls_slots};

static PyType_Slot kept_slots[] = {
    {Py_tp_dealloc, kept_free},
    {Py_tp_traverse, kept_traverse},
    {Py_tp_clear, kept_clear},
    {0, NULL},
};

static PyType_Spec kept_spec = {
    "polyc_fast.Kept", sizeof(Kept), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, kept_slots};

int add_calls(PyObject *module)
{
    calls_type = (PyTypeObject *)PyType_FromSpec(&calls_spec);
    kept_type = (PyTypeObject *)PyType_FromSpec(&kept_spec);
    return !calls_type || !kept_type ||
                   PyModule_AddObjectRef(module, "Calls", (PyObject *)calls_type)
               ? -1
               : 0;
}
