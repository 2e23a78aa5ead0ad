/* The floor of a call into Python: math.sqrt of a float, on a dirty scheduler with a thread state of its own. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <erl_nif.h>

static PyObject *math;
static PyInterpreterState *interp;
static __thread PyThreadState *state;

static ERL_NIF_TERM floor_sqrt(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    double number;
    ERL_NIF_TERM result;
    (void)argc;
    if (!enif_get_double(env, argv[0], &number))
        return enif_make_badarg(env);
    if (state == NULL)
        state = PyThreadState_New(interp);
    PyEval_RestoreThread(state);
    PyObject *function = PyObject_GetAttrString(math, "sqrt");
    PyObject *argument = PyFloat_FromDouble(number);
    PyObject *answer = function && argument ? PyObject_CallOneArg(function, argument) : NULL;
    if (answer != NULL && PyFloat_Check(answer)) {
        result = enif_make_double(env, PyFloat_AS_DOUBLE(answer));
    } else {
        PyErr_Clear();
        result = enif_make_badarg(env);
    }
    Py_XDECREF(answer);
    Py_XDECREF(argument);
    Py_XDECREF(function);
    PyEval_SaveThread();
    return result;
}

static int load(ErlNifEnv *env, void **priv, ERL_NIF_TERM info)
{
    (void)env;
    (void)priv;
    (void)info;
    /* Extension modules look for Python's symbols among the global ones. */
    if (dlopen(LIBPYTHON, RTLD_NOW | RTLD_GLOBAL) == NULL)
        return 1;
    Py_InitializeEx(0);
    math = PyImport_ImportModule("math");
    interp = PyInterpreterState_Get();
    PyEval_SaveThread();
    return math == NULL;
}

static ErlNifFunc functions[] = {{"sqrt", 1, floor_sqrt, ERL_NIF_DIRTY_JOB_CPU_BOUND}};

ERL_NIF_INIT(arm_floor, functions, load, NULL, NULL, NULL)
