//! Carries log lines to where they are written, on a thread of its own: whoever logs never waits for who reads.
//!
//! Lines that wait are limited in number; more of them are left out and counted, and the log says how many.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

use crate::clock;
use crate::line_rates::WINDOW;

/// Lines that may wait: some megabytes.
const LINES_MAX: usize = 8 * 1024;

/// How long the last lines may take to be written when the process ends.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Where log lines are given away.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    lines: SyncSender<Message>,
    shared: Arc<Shared>,
}

/// Writes what still waits when it is dropped. Lines that come later go to stderr at once.
#[derive(Debug)]
#[must_use = "lines are lost when it is dropped too early"]
pub struct Logging {
    lines: SyncSender<Message>,
    shared: Arc<Shared>,
    /// The thread drops the other end when it is done.
    is_done: Receiver<()>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Lines that were left out and that nobody was told of.
    left_out: AtomicU64,
    has_ended: AtomicBool,
}

#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    End,
}

/// Starts the thread. `end_window` says what was left out in a window: it is called when one ends, and may log.
pub(super) fn start(
    sink: impl Write + Send + 'static,
    end_window: impl Fn() + Send + 'static,
) -> io::Result<(Lines, Logging)> {
    start_with_room(sink, LINES_MAX, end_window)
}

fn start_with_room(
    sink: impl Write + Send + 'static,
    room: usize,
    end_window: impl Fn() + Send + 'static,
) -> io::Result<(Lines, Logging)> {
    let (sender, lines) = sync_channel(room);
    let (done, is_done) = sync_channel(0);
    let shared = Arc::new(Shared::default());
    let counted = Arc::clone(&shared);
    thread::Builder::new()
        .name("statehold-log".to_owned())
        .spawn(move || {
            write_all(sink, &lines, &counted, &end_window);
            // What the last window left out goes to stderr at once.
            end_window();
            drop(done);
        })?;
    let logging = Logging {
        lines: sender.clone(),
        shared: Arc::clone(&shared),
        is_done,
    };
    let lines = Lines {
        lines: sender,
        shared,
    };
    Ok((lines, logging))
}

/// Nobody can be told that a line could not be written.
fn write_all(mut sink: impl Write, lines: &Receiver<Message>, shared: &Shared, end_window: &impl Fn()) {
    let mut ends = clock::instant() + WINDOW;
    loop {
        let left = ends.saturating_duration_since(clock::instant());
        if left.is_zero() {
            end_window();
            ends = clock::instant() + WINDOW;
        }
        match lines.recv_timeout(left) {
            Ok(Message::Line(line)) => {
                let _ = sink.write_all(&line);
            }
            Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let left_out = shared.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            let _ = writeln!(
                sink,
                "statehold: {left_out} log lines were left out: they are not read fast enough"
            );
        }
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Relaxed);
        // If there is no room, whoever reads does not, and would not read the last lines either.
        if self.lines.try_send(Message::End).is_ok() {
            let _ = self.is_done.recv_timeout(LAST_LINES);
        }
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

impl Write for &Lines {
    /// One event.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.shared.has_ended.load(Ordering::Relaxed) {
            return io::stderr().write(line);
        }
        match self.lines.try_send(Message::Line(line.to_vec())) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                self.shared.left_out.fetch_add(1, Ordering::Relaxed);
            }
            Err(TrySendError::Disconnected(_)) => return io::stderr().write(line),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// What was written, once writing is allowed.
    #[derive(Clone, Default)]
    struct Page {
        text: Arc<Mutex<Vec<u8>>>,
        gate: Arc<Mutex<()>>,
    }

    impl Page {
        fn text(&self) -> String {
            String::from_utf8(self.text.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _open = self.gate.lock().unwrap();
            self.text.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_in_their_order_to_the_last() {
        let page = Page::default();
        let (lines, logging) = start(page.clone(), || ()).unwrap();
        for number in 0..100 {
            writeln!(&lines, "{number}").unwrap();
        }
        drop(logging);
        let written: Vec<String> = page.text().lines().map(str::to_owned).collect();
        let expected: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        assert_eq!(written, expected);
    }

    #[test]
    fn who_logs_does_not_wait_for_who_reads_and_what_is_left_out_is_counted() {
        let page = Page::default();
        let closed = page.gate.lock().unwrap();
        let (lines, logging) = start_with_room(page.clone(), 10, || ()).unwrap();
        // One line may be with the thread already.
        for _ in 0..30 {
            (&lines).write_all(b"line\n").unwrap();
        }
        drop(closed);
        while !page.text().contains("left out") {
            thread::yield_now();
        }
        drop(logging);
        let text = page.text();
        let written = text.lines().filter(|line| *line == "line").count();
        assert!(
            written == 10 && text.contains("statehold: 20 log lines")
                || written == 11 && text.contains("statehold: 19 log lines"),
            "{text}"
        );
    }
}
