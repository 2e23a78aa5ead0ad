//! `Command`: a command and its arguments, as they are sent.

/// A command, encoded as it is written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    arguments: usize,
    body: Vec<u8>,
}

impl Command {
    /// The command of this name.
    pub fn new(name: &str) -> Command {
        Command { arguments: 0, body: Vec::with_capacity(64) }.arg(name)
    }

    /// With one more argument.
    pub fn arg(mut self, argument: impl AsRef<[u8]>) -> Command {
        let argument = argument.as_ref();
        self.arguments += 1;
        number(&mut self.body, b'$', argument.len());
        self.body.extend_from_slice(argument);
        self.body.extend_from_slice(b"\r\n");
        self
    }

    /// With one more argument, a number.
    pub fn int(self, number: i64) -> Command {
        self.arg(number.to_string())
    }

    /// Appends it to what is to be sent.
    pub fn write(&self, out: &mut Vec<u8>) {
        number(out, b'*', self.arguments);
        out.extend_from_slice(&self.body);
    }
}

/// A prefix, a number and the end of the line.
fn number(out: &mut Vec<u8>, prefix: u8, mut number: usize) {
    let mut digits = [0u8; 20];
    let mut first = digits.len();
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        first -= 1;
        if number == 0 {
            break;
        }
    }
    out.push(prefix);
    out.extend_from_slice(digits.get(first..).unwrap_or_default());
    out.extend_from_slice(b"\r\n");
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_of_strings_whatever_the_bytes() {
        let mut out = Vec::new();
        Command::new("SET").arg("k\r\n").arg([0, 255]).arg("").int(-12).write(&mut out);
        let expected = b"*5\r\n$3\r\nSET\r\n$3\r\nk\r\n\r\n$2\r\n\x00\xff\r\n$0\r\n\r\n$3\r\n-12\r\n";
        assert_eq!(out, expected);
        let mut long = Vec::new();
        number(&mut long, b'$', usize::MAX);
        assert_eq!(long, format!("${}\r\n", usize::MAX).into_bytes());
    }
}
