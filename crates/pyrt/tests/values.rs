//! Conversions, calls, buffers, contexts, and the cells payloads are made of.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests count as tests"
)]

mod common;

use common::{attached, eval, raised, run};
use pyrt::*;

#[test]
fn integers_keep_to_their_bounds() {
    attached(|py| {
        for value in [0, 1, -1, i64::MIN, i64::MAX] {
            assert_eq!(Owned::int(py, value).unwrap().to_i64(py).unwrap(), value);
        }
        assert_eq!(Owned::uint(py, u64::MAX).unwrap().to_u64(py).unwrap(), u64::MAX);
        assert_eq!(eval(py, "True").to_i64(py).unwrap(), 1);
        let index = eval(py, "type('I', (), {'__index__': lambda self: 5})()");
        assert_eq!((index.to_i64(py).unwrap(), index.to_usize(py).unwrap()), (5, 5));
        let error = |expression: &str| {
            let object = eval(py, expression);
            [raised(py, object.to_i64(py)), raised(py, object.to_u64(py)), raised(py, object.to_i32(py))]
                .map(|text| text.split(':').next().unwrap().to_owned())
        };
        assert_eq!(error("2**64"), ["OverflowError", "OverflowError", "OverflowError"]);
        assert_eq!(error("-1")[1], "OverflowError");
        assert_eq!(error("2**40")[2], "OverflowError");
        assert_eq!(error("1.5"), ["TypeError", "TypeError", "TypeError"]);
        assert_eq!(error("'1'"), ["TypeError", "TypeError", "TypeError"]);
    });
}

#[test]
fn floats_come_from_ints_too() {
    attached(|py| {
        for (expression, value) in [("1.5", 1.5), ("2", 2.0), ("-1", -1.0), ("-1.0", -1.0), ("True", 1.0)] {
            assert_eq!(eval(py, expression).to_f64(py).unwrap(), value);
        }
        assert!(raised(py, eval(py, "'x'").to_f64(py)).starts_with("TypeError"));
        assert!(raised(py, eval(py, "10**400").to_f64(py)).starts_with("OverflowError"));
    });
}

#[test]
fn descriptors_come_from_ints_and_files() {
    attached(|py| {
        assert_eq!(eval(py, "5").to_fd(py).unwrap(), 5);
        assert_eq!(eval(py, "type('F', (), {'fileno': lambda self: 7})()").to_fd(py).unwrap(), 7);
        assert!(raised(py, eval(py, "-1").to_fd(py)).starts_with("ValueError"));
        assert!(raised(py, eval(py, "'x'").to_fd(py)).starts_with("TypeError"));
    });
}

#[test]
fn text_goes_both_ways() {
    attached(|py| {
        for text in ["", "abc", "äöü", "\u{1f600}", "a\0b"] {
            assert_eq!(Owned::str(py, text).unwrap().to_str(py).unwrap(), text);
        }
        let lone = eval(py, r"'a\ud800'");
        assert!(raised(py, lone.to_str(py)).starts_with("UnicodeEncodeError"));
        assert_eq!(lone.to_string_lossy(py).unwrap(), "a?");
        assert_eq!(raised(py, eval(py, "b'x'").to_str(py)), "TypeError: expected str, got bytes");
        let name = Owned::interned(py, c"a_name").unwrap();
        assert!(name.is(&Owned::interned(py, c"a_name").unwrap()));
        let fs = Owned::fs_str(py, b"a\xff").unwrap();
        assert!(fs.equals(py, &eval(py, r"'a\udcff'")).unwrap());
    });
}

#[test]
fn calls_of_every_shape() {
    attached(|py| {
        let echo = run(py, "def result(*args, **kwargs): return args, kwargs").unwrap();
        let text = |object: PyResult<Owned>| object.unwrap().repr(py).unwrap().to_string_lossy(py).unwrap();
        let (one, two) = (Owned::int(py, 1).unwrap(), Owned::int(py, 2).unwrap());
        assert_eq!(text(echo.call0(py)), "((), {})");
        assert_eq!(text(echo.call1(py, &one)), "((1,), {})");
        assert_eq!(text(echo.call(py, [one.borrow(), two.borrow()])), "((1, 2), {})");
        assert_eq!(text(echo.call_slice(py, &[one.borrow(); 5])), "((1, 1, 1, 1, 1), {})");
        let names = eval(py, "('k',)");
        assert_eq!(text(echo.call_names(py, &[one.borrow(), two.borrow()], &names)), "((1,), {'k': 2})");
        assert!(raised(py, echo.call_names(py, &[], &names)).starts_with("TypeError"));
        assert_eq!(
            text(echo.call_tuple(py, &eval(py, "(1,)"), Some(&eval(py, "{'a': 2}")))),
            "((1,), {'a': 2})"
        );
        let list = Owned::list(py).unwrap();
        let name = |text| Owned::interned(py, text).unwrap();
        list.call_method1(py, &name(c"append"), &two).unwrap();
        list.call_method(py, &name(c"insert"), [Owned::int(py, 0).unwrap().borrow(), one.borrow()]).unwrap();
        assert_eq!(text(list.call_method0(py, &name(c"copy"))), "[1, 2]");
        // a bound method uses the spare slot before the arguments
        let bound = list.getattr(py, &name(c"extend")).unwrap();
        bound.call1(py, &eval(py, "(3,)")).unwrap();
        assert_eq!(list.len(py).unwrap(), 3);
        assert_eq!(raised(py, one.call0(py)), "TypeError: 'int' object is not callable");
    });
}

#[test]
fn attributes_that_may_be_missing() {
    attached(|py| {
        let object = eval(py, "type('T', (), {'a': 1, 'bad': property(lambda self: 1 / 0)})()");
        let name = |text: &str| Owned::str(py, text).unwrap();
        assert_eq!(object.getattr_opt(py, &name("a")).unwrap().unwrap().to_i64(py).unwrap(), 1);
        assert!(object.getattr_opt(py, &name("b")).unwrap().is_none());
        assert!(raised(py, object.getattr_opt(py, &name("bad"))).starts_with("ZeroDivisionError"));
    });
}

#[test]
fn containers() {
    attached(|py| {
        let int = |value| Owned::int(py, value).unwrap();
        let tuple = Owned::tuple(py, [int(1), int(2)]).unwrap();
        let items = tuple.as_tuple(py).unwrap();
        assert_eq!(items.len(), 2);
        assert_eq!(items[1].to_i64(py).unwrap(), 2);
        assert!(raised(py, int(1).as_tuple(py)).starts_with("TypeError"));
        let list = Owned::list_of(py, vec![int(1), int(2), int(3)]).unwrap();
        assert_eq!(list.slice_indices_of(py), "TypeError: expected slice, got list");
        let slice = Owned::slice(py, -2, 100).unwrap();
        assert_eq!(slice.slice_indices(py, 3).unwrap(), (1, 3, 1));
        assert_eq!(list.get_item(py, &slice).unwrap().len(py).unwrap(), 2);
        let dict = Owned::dict(py).unwrap();
        dict.dict_set(py, &int(1), &int(5)).unwrap();
        assert_eq!(dict.dict_get(py, &int(1)).unwrap().unwrap().to_i64(py).unwrap(), 5);
        assert!(dict.dict_get(py, &int(2)).unwrap().is_none());
        assert!(raised(py, dict.dict_get(py, &list)).starts_with("TypeError"));
        let iterator = tuple.iter(py).unwrap();
        let mut sum = 0;
        while let Some(item) = iterator.next(py).unwrap() {
            sum += item.to_i64(py).unwrap();
        }
        assert_eq!(sum, 3);
    });
}

trait SliceError {
    fn slice_indices_of(&self, py: Attached<'_>) -> String;
}

impl SliceError for Owned {
    fn slice_indices_of(&self, py: Attached<'_>) -> String {
        raised(py, self.slice_indices(py, 1))
    }
}

#[test]
fn buffers_hold_their_exporter() {
    attached(|py| {
        let array = eval(py, "bytearray(b'hello')");
        {
            let mut buffer = Buffer::write(py, &array).unwrap();
            buffer.as_mut_slice()[0] = b'j';
            let grow = array.call_method1(py, &Owned::str(py, "extend").unwrap(), &eval(py, "b'x'"));
            assert!(raised(py, grow).starts_with("BufferError"));
        }
        assert_eq!(Buffer::read(py, &array).unwrap().as_slice(), b"jello");
        let bytes = eval(py, "b'abc'");
        assert!(Buffer::read(py, &bytes).unwrap().is_readonly());
        assert!(raised(py, Buffer::write(py, &bytes)).starts_with("BufferError"));
        assert!(raised(py, Buffer::read(py, &eval(py, "'x'"))).starts_with("TypeError"));
        assert!(
            raised(py, Buffer::read(py, &eval(py, "memoryview(b'abcd')[::2]"))).starts_with("BufferError")
        );
        assert!(Buffer::read(py, &eval(py, "b''")).unwrap().is_empty());
        let view = Owned::memoryview(py, &bytes).unwrap();
        assert_eq!(Buffer::read(py, &view).unwrap().len(), 3);
    });
}

#[test]
fn context_runs_nest_and_refuse_reentry() {
    attached(|py| {
        let context = Context::copy_current(py).unwrap();
        let inner = context.run(py, || context.run(py, || Ok(())));
        assert!(raised(py, inner).starts_with("RuntimeError: cannot enter context"));
        let failed: PyResult<()> = context.run(py, || Err(Fault::value_error("x").raise(py)));
        assert_eq!(raised(py, failed), "ValueError: x");
        assert!(raised(py, Context::from_object(py, eval(py, "1")).map(drop)).starts_with("TypeError"));
    });
}

#[test]
fn whether_there_are_variables_is_seen_in_the_current_context() {
    attached(|py| {
        eval(py, "setattr(__import__('sys'), 'SEEN', __import__('contextvars').ContextVar('SEEN'))");
        let seen = || Context::current_is_empty(py);
        let kept = |context: &Context| {
            context.run(py, || Ok((seen(), Snapshot::current(py)?.into_object().is_some()))).unwrap()
        };
        let (outer, inner) = (Context::empty(py).unwrap(), Context::empty(py).unwrap());
        assert_eq!(kept(&outer), (Some(true), false));
        let nested = outer.run(py, || {
            eval(py, "__import__('sys').SEEN.set(1)");
            // A thread begins without variables, whatever others have.
            let elsewhere =
                py.detach(|| std::thread::spawn(|| attached(Context::current_is_empty)).join().unwrap());
            Ok([seen(), inner.run(py, || Ok(seen()))?, elsewhere, seen()])
        });
        assert_eq!(nested.unwrap(), [Some(false), Some(true), Some(true), Some(false)]);
        assert_eq!((kept(&outer), kept(&inner)), ((Some(false), true), (Some(true), false)));
    });
}

#[test]
fn one_context_serves_all_that_have_no_variables() {
    attached(|py| {
        let spare = ObjCell::empty();
        let run = |code: &str| {
            let snapshot = Snapshot::current(py).unwrap();
            let mut stay = Stay::new(&spare);
            let (result, left) = snapshot.run(py, &mut stay, || Ok(eval(py, code))).unwrap();
            (result.unwrap(), left)
        };
        run("setattr(__import__('sys'), 'VAR', __import__('contextvars').ContextVar('VAR'))");
        let first = spare.get(py).map(|context| context.as_ptr());
        assert_eq!(first.is_some(), HAS_GIL);
        let (changed, left) = run("__import__('sys').VAR.set(1) and None");
        assert!(changed.is_none() && !spare.is_set(py));
        // Who sets a variable gets the context, and nobody else does.
        let left = left.unwrap();
        assert!(first.is_none_or(|first| first == left.as_ptr()));
        let (seen, _) = run("__import__('sys').VAR.get(None)");
        assert!(seen.is_none());
        let again = Snapshot::given(left);
        let (seen, none) =
            again.run(py, &mut Stay::new(&spare), || Ok(eval(py, "__import__('sys').VAR.get()"))).unwrap();
        assert_eq!(seen.unwrap().to_i64(py).unwrap(), 1);
        assert!(none.is_none());
    });
}

#[test]
fn a_stay_lasts_until_something_fails_or_sets_a_variable() {
    attached(|py| {
        eval(py, "setattr(__import__('sys'), 'STAY', __import__('contextvars').ContextVar('STAY'))");
        let spare = ObjCell::empty();
        let around = Context::empty(py).unwrap();
        let seen = || eval(py, "__import__('sys').STAY.get(None)");
        around
            .run(py, || {
                eval(py, "__import__('sys').STAY.set('around')");
                let mut stay = Stay::new(&spare);
                assert!(!seen().is_none());
                for _ in 0..2 {
                    let (result, left) = stay.run(py, || Ok(seen())).unwrap();
                    assert!(result.unwrap().is_none());
                    assert_eq!(left.is_none(), HAS_GIL);
                    // It is still in there, if nobody else can have got hold of the context.
                    assert_eq!(seen().is_none(), HAS_GIL);
                }
                let (failed, left) = stay.run(py, || Err::<(), _>(Kind::ValueError.raise(py, "x"))).unwrap();
                assert!(raised(py, failed).starts_with("ValueError") && !seen().is_none());
                assert_eq!((left.is_none(), spare.is_set(py)), (HAS_GIL, HAS_GIL));
                let (_, left) =
                    stay.run(py, || Ok(eval(py, "__import__('sys').STAY.set('inside') and None"))).unwrap();
                assert!(left.is_some() && !spare.is_set(py) && !seen().is_none());
                let (result, _) = stay.run(py, || Ok(seen())).unwrap();
                assert!(result.unwrap().is_none());
                drop(stay);
                assert!(!seen().is_none());
                assert_eq!(spare.is_set(py), HAS_GIL);
                // One that somebody has hold of is no longer there for others.
                let mut stay = Stay::new(&spare);
                let (_, none) = stay.run(py, || Ok(())).unwrap();
                assert_eq!(none.is_none(), HAS_GIL);
                drop(stay.leave(py));
                let held = spare.get(py);
                let (_, left) = stay.run(py, || Ok(())).unwrap();
                assert!(left.is_some());
                assert!(!HAS_GIL || left.unwrap().is(&held.unwrap()));
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn a_snapshot_that_was_seen_stays_what_it_was() {
    attached(|py| {
        let mut snapshot = Snapshot::current(py).unwrap();
        let seen = snapshot.share(py, Context::empty(py).unwrap());
        assert!(snapshot.share(py, Context::empty(py).unwrap()).is(&seen));
        let spare = ObjCell::empty();
        let (refused, _) = snapshot.run(py, &mut Stay::new(&spare), || run_in(py, &seen, || Ok(()))).unwrap();
        assert!(raised(py, refused).starts_with("RuntimeError: cannot enter context"));
        assert!(!spare.is_set(py));
    });
}

#[test]
fn cells_hold_and_release() {
    attached(|py| {
        let object = eval(py, "object()");
        let before = object.refcount(py);
        let cell = ObjCell::new(object.clone_ref(py));
        assert!(cell.holds(py, &object) && cell.is_set(py));
        assert_eq!(object.refcount(py), before + 1);
        drop(cell.get(py));
        assert_eq!(object.refcount(py), before + 1);
        drop(cell.take(py));
        assert_eq!(object.refcount(py), before);
        assert!(!cell.is_set(py));
        cell.set(py, object.clone_ref(py));
        drop(cell);
        assert_eq!(object.refcount(py), before);
    });
}

#[test]
fn guarded_state_is_free_again_after_a_panic() {
    attached(|py| {
        let guarded = Guarded::new(vec![1]);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            guarded.with(py, |_| panic!("inside")).unwrap()
        }));
        assert!(caught.is_err());
        assert_eq!(guarded.with(py, |values| values.len()).unwrap(), 1);
        let text = raised(py, guarded.with(py, |_| guarded.with(py, |_| ())).unwrap());
        assert!(text.starts_with("RuntimeError: ") && text.ends_with("is in use by a caller of this call"));
    });
}

#[test]
fn audit_hooks_see_the_event() {
    attached(|py| {
        let code = "
import sys
seen = []
sys.addaudithook(lambda event, args: seen.append(args) if event == 'pyrt.test' else None)
result = seen
";
        let seen = run(py, code).unwrap();
        audit(py, c"pyrt.test", &eval(py, "(1, 'two')")).unwrap();
        assert_eq!(seen.repr(py).unwrap().to_str(py).unwrap(), "[(1, 'two')]");
        check_signals(py).unwrap();
        assert!(!is_finalizing());
    });
}

#[test]
fn recursion_is_bounded() {
    fn dive(py: Attached<'_>) -> PyResult<usize> {
        recurse(py, c" while diving", || dive(py))
    }
    attached(|py| {
        assert!(raised(py, dive(py)).starts_with("RecursionError"));
    });
}

#[test]
fn weak_references_know_when_it_is_over() {
    attached(|py| {
        let object = eval(py, "type('T', (), {})()");
        let weak = Owned::weakref(py, &object, None).unwrap();
        assert!(weak.upgrade(py).unwrap().unwrap().is(&object));
        drop(object);
        assert!(weak.upgrade(py).unwrap().is_none());
        assert!(raised(py, eval(py, "1").upgrade(py)).starts_with("TypeError"));
        assert!(raised(py, Owned::weakref(py, &eval(py, "1"), None)).starts_with("TypeError"));
    });
}

#[test]
fn warnings_can_be_errors() {
    attached(|py| {
        let warnings = import(py, c"warnings").unwrap();
        let strict = warnings.getattr_str(py, c"catch_warnings").unwrap().call0(py).unwrap();
        let name = |text| Owned::interned(py, text).unwrap();
        strict.call_method0(py, &name(c"__enter__")).unwrap();
        warnings.call_method1(py, &name(c"simplefilter"), &Owned::str(py, "error").unwrap()).unwrap();
        assert_eq!(raised(py, warn(py, Kind::RuntimeWarning, c"slow", 1)), "RuntimeWarning: slow");
        let text = raised(py, warn_resource(py, &strict, "unclosed <ä>"));
        assert_eq!(text, "ResourceWarning: unclosed <ä>");
        let none = Borrowed::none(py);
        strict.call_method(py, &name(c"__exit__"), [none, none, none]).unwrap();
    });
}

#[test]
fn kept_references_are_arguments() {
    attached(|py| {
        let kept = vec![Owned::int(py, 3).unwrap(), Owned::int(py, 4).unwrap()];
        let pow = eval(py, "pow");
        assert_eq!(pow.call_slice(py, Borrowed::slice(&kept)).unwrap().to_i64(py).unwrap(), 81);
    });
}
