//! `Signature`: matches the arguments of a call with named parameters, and complains in the words of Python functions.
//!
//! Parsing runs on attached threads and runs no Python code. The rules and their order are those of a `def`.

use crate::{Args, Attached, Borrowed, Fixed, Kind, Owned, PyResult, Raised};

/// The parameters of a native function: `N` names, in the order positional-only, positional-or-keyword, keyword-only.
///
/// All are required unless said otherwise. A constant, shared by all interpreters.
///
/// ```
/// use pyrt::Signature;
/// // def call_later(self, delay, callback, *args, context=None)
/// const CALL_LATER: Signature<3> = Signature::method("Loop.call_later", ["delay", "callback", "context"])
///     .varargs(2)
///     .optional_keywords();
/// ```
#[derive(Debug)]
pub struct Signature<const N: usize> {
    function: &'static str,
    names: [&'static str; N],
    /// Receivers counted in messages: 1 for a method, as in Python.
    receivers: usize,
    positional_only: usize,
    positional: usize,
    required: usize,
    varargs: bool,
    keywords_optional: bool,
}

/// The values found, one per parameter.
pub type Values<'py, const N: usize> = [Option<Borrowed<'py>>; N];

impl<const N: usize> Signature<N> {
    /// A function, by its qualified name.
    pub const fn function(function: &'static str, names: [&'static str; N]) -> Self {
        Self {
            function,
            names,
            receivers: 0,
            positional_only: 0,
            positional: N,
            required: N,
            varargs: false,
            keywords_optional: false,
        }
    }

    /// A method, by its qualified name; `self` is not among the names, but counted in messages.
    pub const fn method(function: &'static str, names: [&'static str; N]) -> Self {
        let mut signature = Self::function(function, names);
        signature.receivers = 1;
        signature
    }

    /// The first `count` are positional-only.
    pub const fn positional_only(mut self, count: usize) -> Self {
        self.positional_only = count;
        self
    }

    /// Of the positional ones, all but the first `count` are optional.
    pub const fn required(mut self, count: usize) -> Self {
        self.required = count;
        self
    }

    /// The first `count` can be positional, the others are keyword-only.
    pub const fn keyword_only_after(mut self, count: usize) -> Self {
        self.positional = count;
        if self.required > count {
            self.required = count;
        }
        self
    }

    /// The keyword-only ones are optional.
    pub const fn optional_keywords(mut self) -> Self {
        self.keywords_optional = true;
        self
    }

    /// After the first `count`, further positional arguments are collected, as `*args`; the other names are keyword-only.
    pub const fn varargs(self, count: usize) -> Self {
        let mut signature = self.keyword_only_after(count);
        signature.varargs = true;
        signature
    }

    /// Matches the arguments. Those beyond the named ones are in the positional slice of `args` with [`varargs`](Self::varargs).
    #[inline]
    pub fn parse<'py>(&self, py: Attached<'_>, args: &Args<'py>) -> PyResult<Values<'py, N>> {
        self.parse_with(py, args, None)
    }

    /// [`parse`](Self::parse), and the arguments collected by `*args`.
    #[inline]
    pub fn parse_rest<'py>(
        &self,
        py: Attached<'_>,
        args: &Args<'py>,
    ) -> PyResult<(Values<'py, N>, &'py [Borrowed<'py>])> {
        let values = self.parse(py, args)?;
        Ok((values, args.positional().get(self.positional..).unwrap_or_default()))
    }

    #[inline]
    fn parse_with<'py>(
        &self,
        py: Attached<'_>,
        args: &Args<'py>,
        interned: Option<&[Fixed; N]>,
    ) -> PyResult<Values<'py, N>> {
        let mut values: Values<'py, N> = [None; N];
        let positional = args.positional();
        for (value, given) in values.iter_mut().take(self.positional).zip(positional) {
            *value = Some(*given);
        }
        if args.named() > 0 {
            args.each_named(py, |name, given| {
                let index = self.index_of(py, name, interned)?;
                match values.get_mut(index) {
                    Some(value @ None) => *value = Some(given),
                    _ => return Err(self.twice(py, index)),
                }
                Ok(())
            })?;
        }
        let too_many = positional.len() > self.positional && !self.varargs;
        let missing =
            values.iter().enumerate().any(|(index, value)| value.is_none() && self.is_required(index));
        if too_many || missing {
            return Err(self.complain(py, &values, positional.len(), too_many));
        }
        Ok(values)
    }

    #[inline]
    fn is_required(&self, index: usize) -> bool {
        if index < self.positional { index < self.required } else { !self.keywords_optional }
    }

    /// The parameter a keyword names: by identity of interned names, then by text.
    #[inline]
    fn index_of(
        &self,
        py: Attached<'_>,
        name: Borrowed<'_>,
        interned: Option<&[Fixed; N]>,
    ) -> PyResult<usize> {
        if let Some(interned) = interned {
            let found = interned.iter().skip(self.positional_only).position(|own| own.is(&name));
            if let Some(index) = found {
                return Ok(index + self.positional_only);
            }
        }
        if !name.is_str() {
            return Err(Kind::TypeError.raise(py, &format!("{}() keywords must be strings", self.function)));
        }
        let found = self.names.iter().skip(self.positional_only).position(|own| name.is_text(py, own));
        match found {
            Some(index) => Ok(index + self.positional_only),
            None => Err(self.unexpected(py, name)),
        }
    }

    #[cold]
    fn unexpected(&self, py: Attached<'_>, name: Borrowed<'_>) -> Raised {
        let wrong: Vec<&str> = self
            .names
            .iter()
            .take(self.positional_only)
            .copied()
            .filter(|own| name.is_text(py, own))
            .collect();
        let text = if wrong.is_empty() {
            match name.to_string_lossy(py) {
                Ok(name) => format!("{}() got an unexpected keyword argument '{name}'", self.function),
                Err(raised) => return raised,
            }
        } else {
            let wrong = wrong.join(", ");
            format!(
                "{}() got some positional-only arguments passed as keyword arguments: '{wrong}'",
                self.function
            )
        };
        Kind::TypeError.raise(py, &text)
    }

    #[cold]
    fn twice(&self, py: Attached<'_>, index: usize) -> Raised {
        let name = self.names.get(index).copied().unwrap_or("?");
        Kind::TypeError.raise(py, &format!("{}() got multiple values for argument '{name}'", self.function))
    }

    /// The complaint about too many or missing arguments, in the order Python has them.
    #[cold]
    fn complain(&self, py: Attached<'_>, values: &Values<'_, N>, given: usize, too_many: bool) -> Raised {
        let text = if too_many {
            self.too_many(values, given)
        } else {
            let absent = |range: core::ops::Range<usize>| -> Vec<&str> {
                range
                    .filter(|index| self.is_required(*index) && matches!(values.get(*index), Some(None)))
                    .filter_map(|index| self.names.get(index).copied())
                    .collect()
            };
            let positional = absent(0..self.positional);
            if positional.is_empty() {
                self.missing("keyword-only", &absent(self.positional..N))
            } else {
                self.missing("positional", &positional)
            }
        };
        Kind::TypeError.raise(py, &text)
    }

    fn too_many(&self, values: &Values<'_, N>, given: usize) -> String {
        let (most, least) = (self.positional + self.receivers, self.required + self.receivers);
        let given = given + self.receivers;
        let named = values.iter().skip(self.positional).flatten().count();
        let takes = if least < most { format!("from {least} to {most}") } else { most.to_string() };
        let extra = if named > 0 {
            format!(" positional argument{} (and {named} keyword-only argument{})", s(given), s(named))
        } else {
            String::new()
        };
        format!(
            "{}() takes {takes} positional argument{} but {given}{extra} {} given",
            self.function,
            if least < most { "s" } else { s(most) },
            if given == 1 && named == 0 { "was" } else { "were" },
        )
    }

    fn missing(&self, kind: &str, names: &[&str]) -> String {
        let list = match names {
            [] => String::new(),
            [one] => format!("'{one}'"),
            [one, two] => format!("'{one}' and '{two}'"),
            [first @ .., last] => {
                let first: Vec<String> = first.iter().map(|name| format!("'{name}'")).collect();
                format!("{}, and '{last}'", first.join(", "))
            }
        };
        let count = names.len();
        format!("{}() missing {count} required {kind} argument{}: {list}", self.function, s(count))
    }
}

fn s(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// A signature with its names interned for one interpreter: keywords are found by identity. Kept in module state.
pub struct Params<const N: usize> {
    signature: &'static Signature<N>,
    names: [Fixed; N],
}

impl<const N: usize> Params<N> {
    /// Interns the names.
    pub fn new(py: Attached<'_>, signature: &'static Signature<N>) -> PyResult<Self> {
        let mut names = Vec::with_capacity(N);
        for name in signature.names {
            let name = std::ffi::CString::new(name).map_err(|error| crate::Fault::from(error).raise(py))?;
            names.push(Fixed::from(Owned::interned(py, &name)?));
        }
        match names.try_into() {
            Ok(names) => Ok(Self { signature, names }),
            Err(_) => Err(crate::Fault::system("a name was lost").raise(py)),
        }
    }

    /// [`Signature::parse`].
    #[inline]
    pub fn parse<'py>(&self, py: Attached<'_>, args: &Args<'py>) -> PyResult<Values<'py, N>> {
        self.signature.parse_with(py, args, Some(&self.names))
    }

    /// [`Signature::parse_rest`].
    #[inline]
    pub fn parse_rest<'py>(
        &self,
        py: Attached<'_>,
        args: &Args<'py>,
    ) -> PyResult<(Values<'py, N>, &'py [Borrowed<'py>])> {
        let values = self.parse(py, args)?;
        Ok((values, args.positional().get(self.signature.positional..).unwrap_or_default()))
    }
}

// SAFETY: references to strings.
unsafe impl<const N: usize> crate::Confined for Params<N> {}
