//! The client that behaves well, and what it notices.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;

use super::attacker::Attacker;
use crate::bench::clock;
use crate::bench::process::Process;

/// Pings the server on a thread of its own.
pub(super) struct Pinger {
    thread: JoinHandle<anyhow::Result<Figures>>,
    acting: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

/// What was noticed while the adversary acted. Memory is in KiB.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    /// The longest time from a PINGREQ to its PINGRESP.
    pub(super) gap: Duration,
    /// The most that the server's main thread computed between one PINGREQ and its PINGRESP.
    pub(super) gap_computed: Duration,
    pub(super) pings: u64,
    /// How long the adversary acted, and how much the server's main thread computed in that time.
    pub(super) acted: Duration,
    pub(super) computed: Duration,
    pub(super) resident_before: f64,
    pub(super) resident_max: f64,
    pub(super) resident_after: f64,
}

/// How often it pings.
const INTERVAL: Duration = Duration::from_millis(5);

/// What the adversary leaves behind may still be worked on for so long.
const AFTERWARDS: Duration = Duration::from_millis(500);

/// A gap that is longer counts as this, and ends the measurement.
const GAP_MAX: Duration = Duration::from_secs(120);

const PINGREQ: [u8; 2] = [0xC0, 0];

impl Pinger {
    pub(super) fn start(address: SocketAddr, process: Process) -> anyhow::Result<Self> {
        let pinging = Attacker::connect(address, "hostile-pinger")?.stream;
        pinging.set_read_timeout(Some(GAP_MAX))?;
        let (acting, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let watched = Watched {
            pinging,
            process,
            acting: Arc::clone(&acting),
            stop: Arc::clone(&stop),
        };
        Ok(Self {
            thread: std::thread::spawn(move || watched.run()),
            acting,
            stop,
        })
    }

    /// Set when the adversary begins.
    pub(super) fn acting(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.acting)
    }

    /// The adversary has ended.
    pub(super) fn finish(self) -> anyhow::Result<Figures> {
        std::thread::sleep(AFTERWARDS);
        self.stop.store(true, Ordering::Release);
        let ended = self.thread.join();
        ended.map_err(|_| anyhow::anyhow!("the client that pings has panicked"))?
    }
}

struct Watched {
    pinging: TcpStream,
    process: Process,
    acting: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

impl Watched {
    fn run(mut self) -> anyhow::Result<Figures> {
        while !self.acting.load(Ordering::Acquire) {
            self.ping()?;
            if self.stop.load(Ordering::Acquire) {
                return Ok(Figures::default());
            }
            std::thread::sleep(INTERVAL);
        }
        let (began, computed) = (clock::now(), self.process.computed()?);
        let resident = self.process.resident_kib()?;
        let mut figures = Figures {
            resident_before: resident,
            resident_max: resident,
            ..Figures::default()
        };
        while !self.stop.load(Ordering::Acquire) {
            let next = clock::now() + INTERVAL;
            self.observe(&mut figures)?;
            std::thread::sleep(next.saturating_duration_since(clock::now()));
        }
        figures.acted = clock::now() - began;
        figures.computed = self.process.computed()?.saturating_sub(computed);
        figures.resident_after = self.process.resident_kib()?;
        Ok(figures)
    }

    fn observe(&mut self, figures: &mut Figures) -> anyhow::Result<()> {
        let (sent, computed) = (clock::now(), self.process.computed()?);
        self.ping()?;
        let gap = clock::now() - sent;
        let computed = self.process.computed()?.saturating_sub(computed);
        figures.pings += 1;
        figures.gap = figures.gap.max(gap);
        // It cannot have computed for longer than it was waited for; the figure is read a little later.
        figures.gap_computed = figures.gap_computed.max(computed.min(gap));
        figures.resident_max = figures.resident_max.max(self.process.resident_kib()?);
        Ok(())
    }

    fn ping(&mut self) -> anyhow::Result<()> {
        self.pinging.write_all(&PINGREQ)?;
        let mut answer = [0; 2];
        let answered = self.pinging.read_exact(&mut answer);
        answered.context("the client that behaves well lost its connection")
    }
}
