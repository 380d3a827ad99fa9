/* SPDX-License-Identifier: Apache-2.0
 * Copyright the gpuprobe authors.
 *
 * A program with an interpreter inside: C calls Python, which calls C, which calls Python. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject* CallBack(PyObject* self, PyObject* function) {
  (void)self;
  return PyObject_CallFunction(function, NULL);
}

static PyMethodDef call_back = {"call_back", CallBack, METH_O, NULL};

int main(void) {
  Py_InitializeEx(0);
  PyObject* module = PyImport_AddModule("__main__");
  PyObject_SetAttrString(module, "call_back", PyCFunction_New(&call_back, NULL));
  PyRun_SimpleString(
      "import time\n"
      "def inner():\n"
      "  print('ready', flush=True)\n"
      "  time.sleep(600)\n"
      "def outer():\n"
      "  call_back(inner)\n"
      "outer()\n");
  return 0;
}
