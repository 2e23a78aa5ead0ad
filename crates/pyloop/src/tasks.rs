//! `create_task` and `create_future`: asyncio's own classes, made without a Python frame in between. Attached threads only.

use pyrt::{Args, Attached, Borrowed, Instance, ObjCell, Owned, PyResult};

use crate::along::Along;
use crate::event_loop::Loop;

/// The version from which on tasks may be eager, as `sys.hexversion` has it.
const EAGER: i64 = 0x030c_0000;

/// The version from which on tasks take whatever keywords they are given.
const ANY_KEYWORD: i64 = 0x030e_0000;

impl Loop {
    pub(crate) fn create_future(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<Owned> {
        let native = this.native();
        let class = native.future(py)?;
        if class.is(&native.c_future) {
            let keywords = Self::kept(py, &this.plain, || Self::plain_keywords(py, this))?;
            return class.call_tuple(py, &native.nothing, Some(&keywords));
        }
        class.call_names(py, &[this.object()], &native.future_names)
    }

    /// A future of this loop that is done, one for all.
    #[inline]
    pub(crate) fn done_future(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<Owned> {
        if let Some(done) = this.done.get(py) {
            return Ok(done);
        }
        let done = Self::create_future(py, this)?;
        done.call_method1(py, &this.native().names.set_result, &Borrowed::none(py))?;
        this.done.set(py, done.clone_ref(py));
        Ok(done)
    }

    /// A `Task` whose first step is taken at once. To be called on the loop's thread, and not by a task. A task factory has its
    /// say.
    pub fn start_task(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        coroutine: Borrowed<'_>,
    ) -> PyResult<Owned> {
        let native = this.native();
        this.check_open(py)?;
        if this.task_factory.is_set(py) {
            let none = Borrowed::none(py);
            let make = native.create_task.get(py)?;
            return make.call_names(py, &[this.object(), coroutine, none, none], &native.factory_names);
        }
        let task = native.task(py)?;
        if native.transport.version < EAGER {
            let queued = this.state.with(py, |state| state.ready.len())?;
            let made = Self::make_task(py, this, &task, coroutine)?;
            Self::take_first_step(py, this, queued)?;
            return Ok(made);
        }
        Self::make_task(py, this, &task, coroutine)
    }

    /// A task with the keywords of those that begin at once. The class of asyncio's own is given one dict for all of them, which it
    /// reads and does not keep; any other class a fresh one each time.
    fn make_task(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        class: &Owned,
        coroutine: Borrowed<'_>,
    ) -> PyResult<Owned> {
        let native = this.native();
        let args = Owned::tuple_of(py, &[coroutine])?;
        if !class.is(&native.c_task) {
            let keywords = Self::task_keywords(py, this)?;
            return class.call_tuple(py, &args, Some(&keywords));
        }
        let keywords = Self::kept(py, &this.keywords, || Self::task_keywords(py, this))?;
        class.call_tuple(py, &args, Some(&keywords))
    }

    /// Keywords that are the same for all tasks, made when first needed.
    #[inline]
    fn kept(py: Attached<'_>, cell: &ObjCell, make: impl FnOnce() -> PyResult<Owned>) -> PyResult<Owned> {
        if let Some(keywords) = cell.get(py) {
            return Ok(keywords);
        }
        let keywords = make()?;
        cell.set(py, keywords.clone_ref(py));
        Ok(keywords)
    }

    fn plain_keywords(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<Owned> {
        let keywords = Owned::dict(py)?;
        keywords.dict_set(py, &this.native().names.loop_name, &this.object())?;
        Ok(keywords)
    }

    fn task_keywords(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<Owned> {
        let native = this.native();
        let keywords = Self::plain_keywords(py, this)?;
        if native.transport.version < EAGER {
            // A name of its own would be a text to format, before anybody has asked for it.
            keywords.dict_set(py, &native.names.name, &native.names.erlang)?;
        } else {
            keywords.dict_set(py, &native.names.eager_start, &Owned::bool(py, true))?;
        }
        Ok(keywords)
    }

    /// Takes the first step of a new task, for Pythons in which a task cannot do that itself: it is the only thing that was
    /// queued since there were so many. If others have queued something too, it has its turn. Tasks that do not wait then
    /// end one by one, where thousands would be alive at once.
    fn take_first_step(py: Attached<'_>, this: Instance<'_, Self>, queued: usize) -> PyResult<()> {
        if this.is_debug() {
            return Ok(());
        }
        let step = this
            .state
            .with(py, |state| if state.ready.len() == queued + 1 { state.ready.pop_back() } else { None })?;
        step.map_or(Ok(()), |step| step.run(py, this.native(), &mut Along::new(&this.spare_context)))
    }

    /// A `Task`, or what the task factory makes of it.
    pub(crate) fn create_task(py: Attached<'_>, this: Instance<'_, Self>, args: Args<'_>) -> PyResult<Owned> {
        let native = this.native();
        if native.transport.version >= ANY_KEYWORD {
            return match args.positional() {
                [coroutine] if args.named() == 0 && !this.task_factory.is_set(py) => {
                    this.check_open(py)?;
                    let class = native.task(py)?;
                    if class.is(&native.c_task) {
                        let keywords = Self::kept(py, &this.plain, || Self::plain_keywords(py, this))?;
                        return class.call_tuple(py, &Owned::tuple_of(py, &[*coroutine])?, Some(&keywords));
                    }
                    class.call_names(py, &[*coroutine, this.object()], &native.future_names)
                }
                _ => Self::create_task_with(py, this, &args),
            };
        }
        let [coroutine, name, context] = native.signatures.create_task.parse(py, &args)?;
        this.check_open(py)?;
        let none = Borrowed::none(py);
        let (coroutine, name, context) =
            (coroutine.unwrap_or(none), name.unwrap_or(none), context.unwrap_or(none));
        if this.task_factory.is_set(py) {
            // How a factory is called differs from Python to Python.
            let make = native.create_task.get(py)?;
            return make.call_names(py, &[this.object(), coroutine, name, context], &native.factory_names);
        }
        native.task(py)?.call_names(py, &[coroutine, this.object(), name, context], &native.task_names)
    }

    /// The stdlib's own way, with a factory and all keywords.
    fn create_task_with(py: Attached<'_>, this: Instance<'_, Self>, args: &Args<'_>) -> PyResult<Owned> {
        let mut values = vec![this.object()];
        values.extend_from_slice(args.positional());
        let mut names = Vec::new();
        args.each_named(py, |name, value| {
            names.push(name);
            values.push(value);
            Ok(())
        })?;
        let names = Owned::tuple_of(py, &names)?;
        this.native().create_task.get(py)?.call_names(py, &values, &names)
    }
}
