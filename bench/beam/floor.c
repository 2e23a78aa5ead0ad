/* The floor of calls into Python, on a dirty scheduler with a thread state of its own: math.sqrt of a float, and a coroutine that
   returns what it was given, once or many times. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <erl_nif.h>

static PyObject *math, *coroutine;
static PyInterpreterState *interp;
static __thread PyThreadState *state;

#include "bare.h"

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

/* The coroutine of one number to its end, in one step. */
static int step(double number, double *result)
{
    PyObject *argument = PyFloat_FromDouble(number), *answer = NULL;
    PyObject *steps = argument ? PyObject_CallOneArg(coroutine, argument) : NULL;
    int done = steps != NULL && PyIter_Send(steps, Py_None, &answer) == PYGEN_RETURN && PyFloat_Check(answer);
    if (done)
        *result = PyFloat_AS_DOUBLE(answer);
    else
        PyErr_Clear();
    Py_XDECREF(answer);
    Py_XDECREF(steps);
    Py_XDECREF(argument);
    return done;
}

static ERL_NIF_TERM floor_same(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    double number;
    (void)argc;
    if (!enif_get_double(env, argv[0], &number))
        return enif_make_badarg(env);
    if (state == NULL)
        state = PyThreadState_New(interp);
    PyEval_RestoreThread(state);
    int done = step(number, &number);
    PyEval_SaveThread();
    return done ? enif_make_double(env, number) : enif_make_badarg(env);
}

/* Each is answered by a message of its own. */
static ERL_NIF_TERM floor_many(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    int count, done = 1;
    double number, answer = 0;
    ErlNifPid self;
    (void)argc;
    if (!enif_get_int(env, argv[0], &count) || !enif_get_double(env, argv[1], &number) || !enif_self(env, &self))
        return enif_make_badarg(env);
    if (state == NULL)
        state = PyThreadState_New(interp);
    ErlNifEnv *message = enif_alloc_env();
    PyEval_RestoreThread(state);
    for (int at = 1; done && at <= count; at++) {
        done = step(number, &answer);
        ERL_NIF_TERM result =
            enif_make_tuple2(message, enif_make_atom(message, "ok"), enif_make_double(message, answer));
        enif_send(env, &self, message,
                  enif_make_tuple3(message, enif_make_atom(message, "async_result"), enif_make_int(message, at), result));
        enif_clear_env(message);
    }
    PyEval_SaveThread();
    enif_free_env(message);
    return done ? enif_make_atom(env, "ok") : enif_make_badarg(env);
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
    PyObject *names = PyDict_New();
    PyObject *ran = names ? PyRun_String("async def same(value): return value", Py_file_input, names, names) : NULL;
    coroutine = ran ? PyDict_GetItemString(names, "same") : NULL;
    interp = PyInterpreterState_Get();
    PyEval_SaveThread();
    return math == NULL || coroutine == NULL;
}

static ErlNifFunc functions[] = {{"sqrt", 1, floor_sqrt, ERL_NIF_DIRTY_JOB_CPU_BOUND},
                                 {"same", 1, floor_same, ERL_NIF_DIRTY_JOB_CPU_BOUND},
                                 {"many", 2, floor_many, ERL_NIF_DIRTY_JOB_CPU_BOUND},
                                 {"later", 2, floor_later, 0},
                                 {"watch", 1, floor_watch, ERL_NIF_DIRTY_JOB_IO_BOUND},
                                 {"write", 2, floor_write, 0}};

ERL_NIF_INIT(arm_floor, functions, load, NULL, NULL, NULL)
