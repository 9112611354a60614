//! Passwords from where they may come from: a file, a pipe, or somebody at a terminal, where they are not shown.

use std::io::{BufRead, IsTerminal, Read, Stdin, Write as _};
use std::path::Path;

use anyhow::Context;
use rustix::termios::{self, LocalModes, OptionalActions, Termios};

use crate::exit::UsageError;

/// Reads a password; a line break at its end does not count.
pub(crate) fn read(file: Option<&Path>) -> anyhow::Result<String> {
    let mut password = String::new();
    match file {
        Some(file) => {
            password =
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        }
        None if std::io::stdin().is_terminal() => return ask(),
        None => {
            let read = std::io::stdin().lock().read_line(&mut password);
            read.context("cannot read stdin")?;
        }
    }
    // Some editors put a byte order mark in front.
    if let Some(rest) = password.strip_prefix('\u{feff}') {
        password = rest.to_owned();
    }
    if password.ends_with('\n') {
        password.pop();
    }
    if password.ends_with('\r') {
        password.pop();
    }
    Ok(password)
}

/// Asks for it twice.
fn ask() -> anyhow::Result<String> {
    let quiet = Quiet::begin(std::io::stdin())?;
    let password = quiet.line("Password: ")?;
    if quiet.line("Again: ")? != password {
        return Err(UsageError("that was not the same password twice".to_owned()).into());
    }
    Ok(password)
}

/// A terminal that does not show what is typed, until this is dropped.
///
/// It hands over each key, that of an interrupt too: otherwise the process would end and leave it so.
struct Quiet {
    stdin: Stdin,
    before: Termios,
}

impl Quiet {
    fn begin(stdin: Stdin) -> anyhow::Result<Self> {
        let before = termios::tcgetattr(&stdin).context("cannot ask the terminal")?;
        let mut quiet = before.clone();
        quiet.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        termios::tcsetattr(&stdin, OptionalActions::Flush, &quiet).context("cannot ask the terminal")?;
        Ok(Self { stdin, before })
    }

    fn line(&self, question: &str) -> anyhow::Result<String> {
        let mut stderr = std::io::stderr();
        write!(stderr, "{question}")?;
        stderr.flush()?;
        let mut typed = Vec::new();
        for byte in self.stdin.lock().bytes() {
            match byte.context("cannot read the terminal")? {
                b'\r' | b'\n' => break,
                INTERRUPT | END => return Err(UsageError("no password".to_owned()).into()),
                BACKSPACE | DELETE => {
                    // The whole last character.
                    while typed.pop().is_some_and(|byte: u8| byte & 0xC0 == 0x80) {}
                }
                byte => typed.push(byte),
            }
        }
        writeln!(stderr)?;
        String::from_utf8(typed).map_err(|_| UsageError("a password is text".to_owned()).into())
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(&self.stdin, OptionalActions::Flush, &self.before);
    }
}

/// Ctrl-C, Ctrl-D, and the two keys that take something back.
const INTERRUPT: u8 = 3;
const END: u8 = 4;
const BACKSPACE: u8 = 8;
const DELETE: u8 = 127;
