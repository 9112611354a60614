//! Threads that make the load, and the line that says how far they are.

use std::future::Future;
use std::io::{IsTerminal, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use clap::Args;
use tokio::task::LocalSet;

use super::clock;
use super::report::Tally;

/// What all benchmarks have in common.
#[derive(Debug, Args)]
pub(super) struct LoadArgs {
    /// Threads that make the load
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) threads: u16,
    /// No progress on stderr
    #[arg(long)]
    pub(super) quiet: bool,
    /// Print a JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// How far the threads are, for the progress line and to stop them.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) done: AtomicU64,
    pub(super) errors: AtomicU64,
    /// Connections that are ready to begin, or will never be.
    pub(super) ready: AtomicU64,
    pub(super) begin: AtomicBool,
    pub(super) stop: AtomicBool,
}

/// The work of one thread: made by that thread, ends with what it counted.
pub(super) type Work = Box<dyn FnOnce(Arc<Progress>) -> WorkFuture + Send>;
type WorkFuture = Pin<Box<dyn Future<Output = anyhow::Result<Tally>>>>;

/// Boxes the work of one thread.
pub(super) fn work<F>(make: impl FnOnce(Arc<Progress>) -> F + Send + 'static) -> Work
where
    F: Future<Output = anyhow::Result<Tally>> + 'static,
{
    Box::new(move |progress| Box::pin(make(progress)))
}

/// What the threads did, and how long it took from the moment all were ready.
pub(super) struct Ran {
    pub(super) tally: Tally,
    pub(super) elapsed: Duration,
    pub(super) cpu: Duration,
}

/// Threads at work.
pub(super) struct Running {
    threads: Vec<JoinHandle<anyhow::Result<Tally>>>,
    pub(super) progress: Arc<Progress>,
}

/// Runs each work on a thread of its own, shows progress, and adds up. The threads begin together when `connections`
/// are ready.
pub(super) fn run(works: Vec<Work>, connections: u64, args: &LoadArgs) -> anyhow::Result<Ran> {
    let running = Running::start(works);
    while running.progress.ready.load(Ordering::Acquire) < connections && !running.is_over() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (started, cpu) = (clock::now(), clock::cpu_time());
    running.progress.begin.store(true, Ordering::Release);
    running.show_until(args.quiet, || running.is_over());
    let (elapsed, cpu) = (clock::now() - started, clock::cpu_time().saturating_sub(cpu));
    Ok(Ran {
        tally: running.join()?,
        elapsed,
        cpu,
    })
}

impl Running {
    pub(super) fn start(works: Vec<Work>) -> Self {
        let progress = Arc::new(Progress::default());
        let start = |work| {
            let progress = Arc::clone(&progress);
            std::thread::spawn(move || one_thread(work, progress))
        };
        Self {
            threads: works.into_iter().map(start).collect(),
            progress,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    pub(super) fn join(self) -> anyhow::Result<Tally> {
        let mut tally = Tally::new()?;
        for thread in self.threads {
            let ended = thread
                .join()
                .map_err(|_| anyhow::anyhow!("a thread of the load has panicked"))?;
            tally.add(ended?)?;
        }
        Ok(tally)
    }

    /// Shows a line on stderr every second until `is_over`.
    pub(super) fn show_until(&self, quiet: bool, is_over: impl Fn() -> bool) {
        let is_terminal = std::io::stderr().is_terminal();
        let started = clock::now();
        let (mut last_done, mut last_shown) = (0, started);
        while !is_over() {
            std::thread::sleep(Duration::from_millis(5));
            let since = clock::now() - last_shown;
            if quiet || since < Duration::from_secs(1) {
                continue;
            }
            let done = self.progress.done.load(Ordering::Relaxed);
            let rate = (done - last_done) as f64 / since.as_secs_f64();
            let seconds = (clock::now() - started).as_secs();
            let errors = self.progress.errors.load(Ordering::Relaxed);
            let end = if is_terminal { "  \r" } else { "\n" };
            // Progress that cannot be shown is no reason to stop.
            let _ = write!(
                std::io::stderr(),
                "{seconds:>4} s  {done:>10} done  {rate:>9.0}/s  {errors} errors{end}"
            );
            (last_done, last_shown) = (done, clock::now());
        }
        if is_terminal && !quiet {
            let _ = writeln!(std::io::stderr());
        }
    }
}

fn one_thread(work: Work, progress: Arc<Progress>) -> anyhow::Result<Tally> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(LocalSet::new().run_until(work(progress)))
}

impl Progress {
    /// Says that a connection is ready, and waits for all others.
    pub(super) async fn ready(&self) {
        self.ready.fetch_add(1, Ordering::AcqRel);
        while !self.begin.load(Ordering::Acquire) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
