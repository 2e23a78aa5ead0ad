//! `Job`: a closure that runs once, stored without an allocation if it is small.
//!
//! A posted closure mostly captures a pointer or two. Boxing it would cost a malloc on the posting thread and a free on
//! the loop's for every post, which is more than everything else a post does; so up to three words are kept in place.

use std::mem::{ManuallyDrop, MaybeUninit, align_of, size_of};

type Words = [usize; 3];

/// Why a job is there. Part of its kind, so that it costs no room in the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A user's closure.
    Post,
    /// The loop's own: a wake-up, a cancel, a spawn from another thread.
    Errand,
}

/// How to run or drop what is in the words.
struct Kind {
    run: unsafe fn(*mut Words),
    drop: unsafe fn(*mut Words),
    purpose: Purpose,
}

/// A closure to run once. Stays on its thread; [`SendJob`] travels.
pub(crate) struct Job {
    words: MaybeUninit<Words>,
    kind: &'static Kind,
    /// The closure need not be `Send`, so neither is the job.
    _local: std::marker::PhantomData<*mut ()>,
}

/// A closure to run once, on whichever thread it ends up.
pub(crate) struct SendJob(Job);

// SAFETY: a `SendJob` is only made from a closure that is `Send`.
unsafe impl Send for SendJob {}

const fn fits<F>() -> bool {
    size_of::<F>() <= size_of::<Words>() && align_of::<F>() <= align_of::<Words>()
}

/// The kind of a closure of type `F`, once per purpose.
struct KindOf<F>(std::marker::PhantomData<F>);

impl<F: FnOnce() + 'static> KindOf<F> {
    const POST: &'static Kind = &Self::kind(Purpose::Post);
    const ERRAND: &'static Kind = &Self::kind(Purpose::Errand);

    const fn kind(purpose: Purpose) -> Kind {
        if fits::<F>() {
            Kind {
                // SAFETY: the words hold an `F` (see `Job::new`), and the caller gives it up.
                run: |words| unsafe { words.cast::<F>().read()() },
                // SAFETY: as above.
                drop: |words| unsafe { words.cast::<F>().drop_in_place() },
                purpose,
            }
        } else {
            Kind {
                // SAFETY: the words hold a `Box<F>` (see `Job::new`), and the caller gives it up.
                run: |words| unsafe { words.cast::<Box<F>>().read()() },
                // SAFETY: as above.
                drop: |words| unsafe { words.cast::<Box<F>>().drop_in_place() },
                purpose,
            }
        }
    }
}

impl Job {
    /// Keeps `f` to be run.
    #[inline]
    pub(crate) fn new<F: FnOnce() + 'static>(purpose: Purpose, f: F) -> Job {
        let mut words = MaybeUninit::<Words>::uninit();
        if fits::<F>() {
            // SAFETY: `fits` checked size and alignment.
            unsafe { words.as_mut_ptr().cast::<F>().write(f) };
        } else {
            // SAFETY: a thin box is one word, aligned like one.
            unsafe { words.as_mut_ptr().cast::<Box<F>>().write(Box::new(f)) };
        }
        let kind = match purpose {
            Purpose::Post => KindOf::<F>::POST,
            Purpose::Errand => KindOf::<F>::ERRAND,
        };
        Job { words, kind, _local: std::marker::PhantomData }
    }

    pub(crate) fn purpose(&self) -> Purpose {
        self.kind.purpose
    }

    /// Runs the closure.
    #[inline]
    pub(crate) fn run(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the words are whole, and `this` is not dropped, so they are given up exactly here. If the closure
        // panics, unwinding drops what it captured.
        unsafe { (this.kind.run)(this.words.as_mut_ptr()) }
    }

    /// Takes the closure out again.
    ///
    /// # Safety
    /// The job must have been made by [`Job::new`] from a closure of this very type.
    unsafe fn into_closure<F: FnOnce() + 'static>(self) -> F {
        let mut this = ManuallyDrop::new(self);
        let words = this.words.as_mut_ptr();
        if fits::<F>() {
            // SAFETY: by the caller's word there is an `F` in the words; `this` is not dropped.
            unsafe { words.cast::<F>().read() }
        } else {
            // SAFETY: likewise a `Box<F>`.
            unsafe { *words.cast::<Box<F>>().read() }
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // SAFETY: the words are whole: `run` and `into_closure` give them up without dropping the job.
        unsafe { (self.kind.drop)(self.words.as_mut_ptr()) }
    }
}

impl SendJob {
    /// The job, to run it here.
    #[inline]
    pub(crate) fn into_job(self) -> Job {
        self.0
    }

    /// Offers `f` as a job to `take`, and gets the closure back if the job comes back.
    #[inline]
    pub(crate) fn offer<F: FnOnce() + Send + 'static, R>(
        purpose: Purpose,
        f: F,
        take: impl FnOnce(SendJob) -> Result<R, SendJob>,
    ) -> Result<R, F> {
        take(SendJob(Job::new(purpose, f))).map_err(|job| {
            // SAFETY: `take` gives back the job it was given, made from an `F` one line up. It has no other to give:
            // this is only called with `Inbox::push`, which returns the very value that it refused.
            unsafe { job.0.into_closure::<F>() }
        })
    }
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Job")
    }
}

impl std::fmt::Debug for SendJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SendJob")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn runs_small_and_large_closures() {
        let sum = Rc::new(Cell::new(0));
        let (a, b) = (sum.clone(), sum.clone());
        Job::new(Purpose::Post, move || a.set(a.get() + 1)).run();
        let large = [7u64; 40];
        Job::new(Purpose::Post, move || b.set(b.get() + large.iter().sum::<u64>())).run();
        assert_eq!(sum.get(), 281);
        assert_eq!(Rc::strong_count(&sum), 1);
    }

    #[test]
    fn a_job_that_never_runs_drops_its_closure_once() {
        let kept = Arc::new(());
        let large = [0u8; 100];
        let (a, b) = (kept.clone(), kept.clone());
        drop(Job::new(Purpose::Post, move || drop(a)));
        drop(Job::new(Purpose::Post, move || {
            let _ = (&b, large);
        }));
        assert_eq!(Arc::strong_count(&kept), 1);
    }

    #[test]
    fn a_panic_drops_what_was_captured() {
        let kept = Arc::new(());
        let inner = kept.clone();
        let job = Job::new(Purpose::Post, move || {
            let _inner = inner;
            panic!("on purpose");
        });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.run())).is_err());
        assert_eq!(Arc::strong_count(&kept), 1);
    }

    #[test]
    fn a_refused_closure_comes_back_unrun() {
        let runs = Arc::new(AtomicUsize::new(0));
        let (small, big) = (runs.clone(), runs.clone());
        let large = [1usize; 9];
        let add_one = move || {
            small.fetch_add(1, Ordering::Relaxed);
        };
        let add_nine = move || {
            big.fetch_add(large.len(), Ordering::Relaxed);
        };
        let back = SendJob::offer(Purpose::Post, add_one, Err::<(), _>).unwrap_err();
        let back_large = SendJob::offer(Purpose::Post, add_nine, Err::<(), _>).unwrap_err();
        assert_eq!(runs.load(Ordering::Relaxed), 0);
        back();
        back_large();
        assert_eq!(runs.load(Ordering::Relaxed), 10);
    }

    #[test]
    fn over_aligned_closures_are_boxed() {
        #[repr(align(64))]
        struct Wide(u8);
        let wide = Wide(3);
        let out = Rc::new(Cell::new(0));
        let sink = out.clone();
        Job::new(Purpose::Post, move || {
            let wide = wide;
            assert_eq!(std::ptr::from_ref(&wide) as usize % 64, 0);
            sink.set(wide.0);
        })
        .run();
        assert_eq!(out.get(), 3);
    }
}
