/* A bare thread in place of an event loop: what is left when there is no timeout, no cancellation and no other callback. It takes
   requests from a queue, makes an asyncio.Task for each, steps it and answers; or it waits in epoll and calls a function. */
#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <unistd.h>

/* As much of an event loop as a task asks for: it keeps the step that it is given. */
typedef struct {
    PyObject ob_base;
    PyObject *step, *context;
} Stepper;

static PyObject *stepper_call_soon(PyObject *self, PyObject *args, PyObject *kwargs)
{
    Stepper *stepper = (Stepper *)self;
    PyObject *context = kwargs ? PyDict_GetItemString(kwargs, "context") : NULL;
    Py_XSETREF(stepper->step, Py_NewRef(PyTuple_GET_ITEM(args, 0)));
    Py_XSETREF(stepper->context, Py_XNewRef(context));
    Py_RETURN_NONE;
}

static PyObject *stepper_get_debug(PyObject *self, PyObject *nothing)
{
    (void)self;
    (void)nothing;
    Py_RETURN_FALSE;
}

static PyMethodDef stepper_methods[] = {
    {"call_soon", (PyCFunction)(void (*)(void))stepper_call_soon, METH_VARARGS | METH_KEYWORDS, NULL},
    {"get_debug", stepper_get_debug, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot stepper_slots[] = {{Py_tp_methods, stepper_methods}, {0, NULL}};
static PyType_Spec stepper_spec = {"floor.Stepper", sizeof(Stepper), 0, Py_TPFLAGS_DEFAULT, stepper_slots};

typedef struct Request {
    struct Request *next;
    ErlNifEnv *env;
    ErlNifPid from;
    ERL_NIF_TERM reference;
    double number;
} Request;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some = PTHREAD_COND_INITIALIZER;
static Request *first, **last = &first;

/* One request as a task, to its end. */
static int run_task(PyObject *task_class, PyObject *keywords, Stepper *stepper, double number, double *result)
{
    PyObject *argument = PyFloat_FromDouble(number), *answer = NULL, *stepped = NULL;
    PyObject *steps = argument ? PyObject_CallOneArg(coroutine, argument) : NULL;
    PyObject *args = steps ? PyTuple_Pack(1, steps) : NULL;
    PyObject *task = args ? PyObject_Call(task_class, args, keywords) : NULL;
    if (task != NULL && PyContext_Enter(stepper->context) == 0) {
        stepped = PyObject_CallNoArgs(stepper->step);
        PyContext_Exit(stepper->context);
        answer = stepped ? PyObject_CallMethod(task, "result", NULL) : NULL;
    }
    int done = answer != NULL && PyFloat_Check(answer);
    if (done)
        *result = PyFloat_AS_DOUBLE(answer);
    else
        PyErr_Print();
    Py_CLEAR(stepper->step);
    Py_CLEAR(stepper->context);
    Py_XDECREF(answer);
    Py_XDECREF(stepped);
    Py_XDECREF(task);
    Py_XDECREF(args);
    Py_XDECREF(steps);
    Py_XDECREF(argument);
    return done;
}

static void *serve(void *nothing)
{
    PyThreadState *own = PyThreadState_New(interp);
    PyEval_RestoreThread(own);
    PyObject *asyncio = PyImport_ImportModule("asyncio"), *events = PyImport_ImportModule("asyncio.events");
    PyObject *task_class = asyncio ? PyObject_GetAttrString(asyncio, "Task") : NULL;
    PyObject *type = PyType_FromSpec(&stepper_spec);
    PyObject *stepper = type ? PyObject_CallNoArgs(type) : NULL;
    PyObject *keywords = stepper ? Py_BuildValue("{s:O,s:s}", "loop", stepper, "name", "bare") : NULL;
    PyObject *set = events && keywords ? PyObject_CallMethod(events, "_set_running_loop", "O", stepper) : NULL;
    if (set == NULL)
        PyErr_Print();
    PyEval_SaveThread();
    while (set != NULL) {
        pthread_mutex_lock(&lock);
        while (first == NULL)
            pthread_cond_wait(&some, &lock);
        Request *request = first;
        first = NULL;
        last = &first;
        pthread_mutex_unlock(&lock);
        PyEval_RestoreThread(own);
        while (request != NULL) {
            Request *next = request->next;
            ErlNifEnv *env = request->env;
            double answer = 0;
            const char *word = run_task(task_class, keywords, (Stepper *)stepper, request->number, &answer) ? "ok" : "error";
            ERL_NIF_TERM result = enif_make_tuple2(env, enif_make_atom(env, word), enif_make_double(env, answer));
            enif_send(NULL, &request->from, env,
                      enif_make_tuple3(env, enif_make_atom(env, "async_result"), request->reference, result));
            enif_free_env(env);
            free(request);
            request = next;
        }
        PyEval_SaveThread();
    }
    return nothing;
}

/* Queues a request; the thread is started by the first. */
static ERL_NIF_TERM floor_later(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    static int started;
    pthread_t thread;
    Request *request = malloc(sizeof *request);
    (void)argc;
    if (request == NULL || !enif_get_double(env, argv[1], &request->number) || !enif_self(env, &request->from)) {
        free(request);
        return enif_make_badarg(env);
    }
    request->next = NULL;
    request->env = enif_alloc_env();
    request->reference = enif_make_copy(request->env, argv[0]);
    pthread_mutex_lock(&lock);
    int idle = first == NULL;
    *last = request;
    last = &request->next;
    if (!started)
        started = pthread_create(&thread, NULL, serve, NULL) == 0;
    pthread_mutex_unlock(&lock);
    if (idle)
        pthread_cond_signal(&some);
    return enif_make_atom(env, "ok");
}

/* Who is told how late each of so many was seen. */
typedef struct {
    int fd, count;
    ErlNifPid to;
} Watch;

static const char SEEN[] = "import os, struct, time\n"
                           "late = []\n"
                           "def seen(fd):\n"
                           "    now = time.time_ns()\n"
                           "    late.append((now - struct.unpack('=q', os.read(fd, 8))[0]) / 1000)\n";

static void *watch(void *given)
{
    Watch *wanted = given;
    struct epoll_event event = {.events = EPOLLIN};
    int epoll = epoll_create1(0);
    PyThreadState *own = PyThreadState_New(interp);
    PyEval_RestoreThread(own);
    PyObject *names = PyDict_New(), *ran = PyRun_String(SEEN, Py_file_input, names, names);
    PyObject *seen = ran ? PyDict_GetItemString(names, "seen") : NULL, *fd = PyLong_FromLong(wanted->fd);
    PyEval_SaveThread();
    epoll_ctl(epoll, EPOLL_CTL_ADD, wanted->fd, &event);
    for (int at = 0; seen != NULL && at < wanted->count; at++) {
        while (epoll_wait(epoll, &event, 1, -1) != 1)
            ;
        PyEval_RestoreThread(own);
        PyObject *done = PyObject_CallOneArg(seen, fd);
        if (done == NULL)
            PyErr_Print();
        Py_XDECREF(done);
        PyEval_SaveThread();
    }
    PyEval_RestoreThread(own);
    ErlNifEnv *env = enif_alloc_env();
    ERL_NIF_TERM list = enif_make_list(env, 0);
    PyObject *late = PyDict_GetItemString(names, "late");
    for (Py_ssize_t at = 0; late != NULL && at < PyList_GET_SIZE(late); at++)
        list = enif_make_list_cell(env, enif_make_double(env, PyFloat_AsDouble(PyList_GET_ITEM(late, at))), list);
    PyEval_SaveThread();
    enif_send(NULL, &wanted->to, env, enif_make_tuple2(env, enif_make_atom(env, "seen"), list));
    enif_free_env(env);
    close(epoll);
    free(wanted);
    return NULL;
}

/* Has a thread wait for a pipe to become readable, so many times. The end to write to. */
static ERL_NIF_TERM floor_watch(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    int ends[2];
    pthread_t thread;
    Watch *wanted = malloc(sizeof *wanted);
    (void)argc;
    if (wanted == NULL || !enif_get_int(env, argv[0], &wanted->count) || !enif_self(env, &wanted->to) || pipe(ends) != 0)
        return enif_make_badarg(env);
    wanted->fd = ends[0];
    return pthread_create(&thread, NULL, watch, wanted) == 0 ? enif_make_int(env, ends[1]) : enif_make_badarg(env);
}

static ERL_NIF_TERM floor_write(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    int fd;
    ErlNifBinary data;
    (void)argc;
    if (!enif_get_int(env, argv[0], &fd) || !enif_inspect_binary(env, argv[1], &data))
        return enif_make_badarg(env);
    return enif_make_int64(env, write(fd, data.data, data.size));
}
