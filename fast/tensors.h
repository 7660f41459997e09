/* What a tensor shows: read by DLPack's exchange interface, or known from before. */

#ifndef POLYC_TENSORS_H
#define POLYC_TENSORS_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { MOST = 128, RANK = 5 };

/* DLDevice, DLTensor and DLPackExchangeAPI. */

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

/* The kind of device; timing where there is no GPU wants another one. */
#ifndef POLYC_DEVICE
#define POLYC_DEVICE 2
#endif
enum { CUDA = POLYC_DEVICE };

typedef PyObject *(*Getter)(PyObject *, PyObject *, PyObject *);
typedef PyObject *(*Method)(PyObject *, PyObject *);

/* How tensors of a library are read: its class, and one more that means the same. */
typedef struct {
    PyObject *tensor, *parameter, *gradient;
    Exchange *exchange;
    Getter gradient_of;
    Method negated;
} Library;

/* A tensor as a call sees it.  `shape` is the tensor's own, or that of what is known of it, and is
 * there until Python runs.  `serial` is 0, or names this tensor as it is, and nothing else ever. */
typedef struct {
    Device device;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    const int64_t *shape;
    uint64_t address, serial;
} Read;

/* The interface of a capsule; NULL with an error. */
Exchange *exchange_of(PyObject *capsule);

/* Read tensors; whether each is plain: of the library's own classes, on a GPU, dense, not negated,
 * without a gradient.  0 comes with an error or without. */
int read_all(const Library *library, PyObject *const *objects, Read *reads, int count);

/* Read a tensor that was just allocated, and has no other meaning than its memory. */
int read_new(const Library *library, PyObject *object, Read *read);

/* How a tensor's memory shows that it has not changed: see polyc.runtime.torch_layout.  Where the
 * sizes are 0 nothing shows it. */
PyObject *set_layout(PyObject *module, PyObject *args);

#endif
