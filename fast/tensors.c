#include "tensors.h"

enum { WAYS = 4, SETS = 256, HEAD = 16 };
enum { OBJECT_BYTES = 256, STORAGE_BYTES = 128, AUTOGRAD_BYTES = 256 };

/* What is known of a tensor, where there is a layout.
 *
 * `object`, `storage` and `autograd` are what its memory, its storage's and autograd's held when it
 * was read, the classes and counts of references of the first two left out: all that is known of it
 * follows from them, so that another tensor that was born in its place and is the same in all of
 * them is as good, and nothing keeps it alive.  `asks` says that autograd has to be asked still, as
 * of a view. */
typedef struct {
    const PyObject *one;
    const char *at;
    Read read;
    int64_t shape[RANK];
    int asks;
    char object[OBJECT_BYTES], storage[STORAGE_BYTES], autograd[AUTOGRAD_BYTES];
} Known;

/* See Layout of polyc.runtime.torch_layout. */
static struct {
    int object, storage, autograd, object_bytes, storage_bytes, autograd_bytes;
    const void *autograd_class;
} layout;

static Known table[SETS][WAYS];
static const PyObject *seen_once[SETS];
static uint64_t serials;

static unsigned set_of(const PyObject *one)
{
    return (unsigned)(((uint64_t)(uintptr_t)one >> 4) * 0x9E3779B97F4A7C15u >> 56);
}

static const char *pointer_at(const void *base, int offset)
{
    const char *found;
    memcpy(&found, (const char *)base + offset, sizeof found);
    return found;
}

static Known *known_of(const PyObject *one)
{
    Known *set = table[set_of(one)];
    for (int i = 0; i < WAYS; i++)
        if (set[i].one == one)
            return &set[i];
    return NULL;
}

/* Whether a tensor is as it was, as far as its memory shows. */
static int unchanged(const Known *known, const PyObject *one)
{
    const char *at = pointer_at(one, layout.object);
    if (at != known->at ||
        memcmp(at + HEAD, known->object, (size_t)layout.object_bytes - HEAD))
        return 0;
    if (memcmp(pointer_at(at, layout.storage) + HEAD, known->storage,
               (size_t)layout.storage_bytes - HEAD))
        return 0;
    const char *autograd = pointer_at(at, layout.autograd);
    return known->asks || !autograd ||
           !memcmp(autograd, known->autograd, (size_t)layout.autograd_bytes);
}

/* Where what is known of a tensor goes; NULL where it is met for the first time. */
static Known *place_for(const PyObject *one)
{
    unsigned number = set_of(one);
    Known *set = table[number], *known = known_of(one);
    if (known)
        return known;
    if (seen_once[number] != one) {
        seen_once[number] = one;
        return NULL;
    }
    for (int i = 0; i < WAYS; i++)
        if (!set[i].one)
            return &set[i];
    static unsigned turn;
    return &set[turn++ % WAYS];
}

/* Keep how a tensor is that was read, from the second time on that it is met. */
static void remember(const PyObject *one, const Read *read)
{
    if (!layout.object_bytes || read->ndim > RANK)
        return;
    const char *at = pointer_at(one, layout.object), *storage = pointer_at(at, layout.storage);
    const char *autograd = pointer_at(at, layout.autograd);
    Known *known = storage ? place_for(one) : NULL;
    if (!known)
        return;
    known->one = one;
    known->at = at;
    known->read = *read;
    memcpy(known->object, at + HEAD, (size_t)layout.object_bytes - HEAD);
    memcpy(known->storage, storage + HEAD, (size_t)layout.storage_bytes - HEAD);
    known->asks = autograd && pointer_at(autograd, 0) != layout.autograd_class;
    if (autograd && !known->asks)
        memcpy(known->autograd, autograd, (size_t)layout.autograd_bytes);
    memcpy(known->shape, read->shape, sizeof(int64_t) * (size_t)read->ndim);
    known->read.shape = known->shape;
    known->read.serial = ++serials;
}

PyObject *set_layout(PyObject *module, PyObject *args)
{
    int object, storage, autograd, object_bytes, storage_bytes, autograd_bytes;
    unsigned long long autograd_class;
    if (!PyArg_ParseTuple(args, "iiiiiiK", &object, &storage, &autograd, &object_bytes,
                          &storage_bytes, &autograd_bytes, &autograd_class))
        return NULL;
    if (object_bytes && (object < 0 || object_bytes < HEAD || object_bytes > OBJECT_BYTES ||
                         storage_bytes < HEAD || storage_bytes > STORAGE_BYTES ||
                         autograd_bytes < 8 || autograd_bytes > AUTOGRAD_BYTES || storage < HEAD ||
                         storage > object_bytes - 8 || autograd < HEAD ||
                         autograd > object_bytes - 8)) {
        PyErr_SetString(PyExc_ValueError, "no tensor is laid out so");
        return NULL;
    }
    const void *class = (const void *)(uintptr_t)autograd_class;
    if (layout.object == object && layout.storage == storage && layout.autograd == autograd &&
        layout.object_bytes == object_bytes && layout.storage_bytes == storage_bytes &&
        layout.autograd_bytes == autograd_bytes && layout.autograd_class == class)
        Py_RETURN_NONE;
    /* What is known was compared in another way. */
    memset(table, 0, sizeof table);
    memset(seen_once, 0, sizeof seen_once);
    layout.object = object;
    layout.storage = storage;
    layout.autograd = autograd;
    layout.object_bytes = object_bytes;
    layout.storage_bytes = storage_bytes;
    layout.autograd_bytes = autograd_bytes;
    layout.autograd_class = class;
    Py_RETURN_NONE;
}

Exchange *exchange_of(PyObject *capsule)
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

/* Whether a tensor's elements are dense in row-major order. */
static int dense(const View *view)
{
    int64_t step = 1;
    if (!view->strides)
        return 1;
    for (int i = 0; i < view->ndim; i++)
        if (!view->shape[i])
            return 1;
    for (int i = view->ndim - 1; i >= 0; i--) {
        if (view->shape[i] != 1 && view->strides[i] != step)
            return 0;
        step *= view->shape[i];
    }
    return 1;
}

static void show(const View *view, Read *read)
{
    read->device = view->device;
    read->ndim = view->ndim;
    read->code = view->code;
    read->bits = view->bits;
    read->lanes = view->lanes;
    read->shape = view->shape;
    read->address = (uint64_t)(uintptr_t)view->data + view->offset;
    read->serial = 0;
}

int read_new(const Library *library, PyObject *object, Read *read)
{
    View view;
    if (library->exchange->view(object, &view))
        return 0;
    show(&view, read);
    return 1;
}

/* Whether a tensor has a gradient to come, or it cannot be said. */
static int asks_gradient(const Library *library, PyObject *one)
{
    PyObject *found = library->gradient_of(library->gradient, one, (PyObject *)Py_TYPE(one));
    Py_XDECREF(found);
    return found != Py_False;
}

/* Whether a tensor is as it was when it was read. */
static int as_known(const Library *library, const Known *known, PyObject *one)
{
    return known && unchanged(known, one) && (!known->asks || !asks_gradient(library, one));
}

int read_all(const Library *library, PyObject *const *objects, Read *reads, int count)
{
    int asked = 0;
    for (int i = 0; i < count; i++) {
        PyObject *one = objects[i], *type = (PyObject *)Py_TYPE(one);
        View view;
        if (type != library->tensor && type != library->parameter)
            return 0;
        const Known *known = known_of(one);
        if (as_known(library, known, one)) {
            reads[i] = known->read;
            continue;
        }
        /* This question lets other threads run, and comes before the others. */
        PyObject *negated = library->negated(one, NULL);
        Py_XDECREF(negated);
        if (negated != Py_False || asks_gradient(library, one) ||
            library->exchange->view(one, &view) || view.device.type != CUDA || !dense(&view))
            return 0;
        show(&view, &reads[i]);
        remember(one, &reads[i]);
        asked = 1;
    }
    if (!asked)
        return 1;
    /* Other threads ran in between, and what was known of a tensor may have made room. */
    for (int i = 0; i < count; i++) {
        PyObject *one = objects[i];
        View view;
        const Known *known = known_of(one);
        if (as_known(library, known, one)) {
            reads[i] = known->read;
            continue;
        }
        if (asks_gradient(library, one) || library->exchange->view(one, &view) ||
            view.device.type != CUDA || !dense(&view))
            return 0;
        show(&view, &reads[i]);
    }
    return 1;
}
