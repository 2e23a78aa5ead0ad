//! The classes `Atom`, `Pid`, `Ref` and `Term` of `erlang`: terms that Python holds and gives back unchanged.
//!
//! Each keeps its term in an environment of its own, which is written before the object is seen and only read afterwards.

use pyrt::{
    Attached, Borrowed, Class, Compare, Instance, Owned, PyResult, Traverse, TypeSlot, Visit, Visited,
    confined,
};
use rustler::sys::{ErlNifHash, ErlNifTerm, enif_hash, enif_is_identical, enif_make_copy};
use rustler::{Env, Term};

use crate::beam::Mail;

/// A term in an environment of its own.
pub(crate) struct Saved {
    /// Holds what `word` points to.
    mail: Mail,
    word: ErlNifTerm,
    /// An atom's; that of the others is made when it is asked for, which few ever are: a term may be large.
    name: Option<String>,
}

// SAFETY: nobody writes to the environment once this is made; copying a term out of it only reads.
unsafe impl Sync for Saved {}
// SAFETY: a word of an environment that is owned.
unsafe impl Send for Saved {}

impl Saved {
    pub(crate) fn new(term: Term<'_>) -> Option<Self> {
        let mail = Mail::new()?;
        let word = mail.keep(term);
        Some(Self { mail, word, name: None })
    }

    /// A term that was made in a mail.
    pub(crate) fn made(mail: Mail, word: ErlNifTerm) -> Self {
        Self { mail, word, name: None }
    }

    /// The term itself.
    pub(crate) fn get(&self) -> Term<'_> {
        // SAFETY: made in this mail, which nobody clears.
        unsafe { self.mail.term(self.word) }
    }

    /// An atom, whose text is known.
    pub(crate) fn atom(atom: Term<'_>, text: &str) -> Option<Self> {
        let mail = Mail::new()?;
        Some(Self { mail, word: atom.as_c_arg(), name: Some(text.to_owned()) })
    }

    /// A copy for another environment.
    pub(crate) fn term<'a>(&self, env: Env<'a>) -> Term<'a> {
        // SAFETY: both environments are alive.
        unsafe { Term::new(env, enif_make_copy(env.as_c_arg(), self.word)) }
    }

    fn text(&self) -> String {
        // SAFETY: made in this mail, which nobody clears.
        self.name.clone().unwrap_or_else(|| format!("{:?}", unsafe { self.mail.term(self.word) }))
    }

    fn equals(&self, other: &Self) -> bool {
        // SAFETY: two live terms; environments do not matter.
        unsafe { enif_is_identical(self.word, other.word) != 0 }
    }

    fn hash(&self) -> isize {
        // SAFETY: a live term.
        unsafe { enif_hash(ErlNifHash::ERL_NIF_PHASH2, self.word, 0) as isize }
    }
}

macro_rules! term_class {
    ($(#[$meta:meta])* $name:ident = $class:literal, $doc:literal, $repr:expr) => {
        $(#[$meta])*
        pub(crate) struct $name {
            pub(crate) saved: Saved,
        }

        confined!($name { saved });

        impl Traverse for $name {
            fn traverse(&self, _visit: &mut Visit<'_>) -> Visited {
                Ok(())
            }
        }

        impl Class for $name {
            const NAME: &'static core::ffi::CStr = $class;
            const DOC: &'static core::ffi::CStr = $doc;
            const GC: bool = false;
            const SLOTS: &'static [TypeSlot<Self>] = &[
                TypeSlot::repr(Self::repr),
                TypeSlot::str(Self::str),
                TypeSlot::hash(Self::hash),
                TypeSlot::compare(Self::compare),
            ];
        }

        impl $name {
            fn repr(_py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<String> {
                let text: fn(&str) -> String = $repr;
                Ok(text(&this.saved.text()))
            }

            fn str(_py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<String> {
                Ok(this.saved.text())
            }

            fn hash(_py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<isize> {
                Ok(this.saved.hash())
            }

            fn compare(
                py: Attached<'_>,
                this: Instance<'_, Self>,
                other: Borrowed<'_>,
                how: Compare,
            ) -> PyResult<Owned> {
                // SAFETY: an instance of the very class, which has no subclasses.
                let same = other.class(py).is(&this.object().class(py)).then(|| unsafe { Instance::<Self>::assume(other) });
                Ok(match (same, how) {
                    (Some(other), Compare::Eq) => Owned::bool(py, this.saved.equals(&other.saved)),
                    (Some(other), Compare::Ne) => Owned::bool(py, !this.saved.equals(&other.saved)),
                    _ => Owned::not_implemented(py),
                })
            }
        }
    };
}

term_class! {
    /// `erlang.Atom`.
    Atom = c"erlang.Atom", c"An atom of Erlang. Made by erlang.atom(name).", |text| format!("erlang.atom({text:?})")
}

term_class! {
    /// `erlang.Pid`.
    Pid = c"erlang.Pid", c"A process of Erlang, local or remote.", |text| format!("<erlang.Pid {text}>")
}

term_class! {
    /// `erlang.Ref`.
    Ref = c"erlang.Ref", c"A reference of Erlang.", |text| format!("<erlang.Ref {text}>")
}

term_class! {
    /// `erlang.Term`.
    Opaque = c"erlang.Term", c"A term that Python has no type for. It converts back to the same term.", |text| format!("<erlang.Term {text}>")
}
