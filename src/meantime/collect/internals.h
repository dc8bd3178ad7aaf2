/* The interpreter's internal headers: where frames, and the state of the GIL, are in memory.

   They differ by minor version, so that what includes this is built for each of them. */

#ifndef MEANTIME_INTERNALS_H
#define MEANTIME_INTERNALS_H

#include <Python.h>

#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#define MEANTIME_DEFINED_CORE
#endif
#undef _PyGC_FINALIZED /* the internal headers have their own */
#include "internal/pycore_frame.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_runtime.h"
#ifdef MEANTIME_DEFINED_CORE
#undef Py_BUILD_CORE
#undef MEANTIME_DEFINED_CORE
#endif

#endif
