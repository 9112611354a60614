//! What the system tells of a process.

use std::time::Duration;

use anyhow::Context;

/// A process of this machine, by its id.
#[derive(Debug, Clone, Copy)]
pub(super) struct Process(pub(super) u32);

impl Process {
    /// Resident memory, in KiB.
    pub(super) fn resident_kib(self) -> anyhow::Result<f64> {
        let file = format!("/proc/{}/status", self.0);
        let status = std::fs::read_to_string(&file).with_context(|| file.clone())?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
        Ok(number
            .with_context(|| format!("no VmRSS in {file}"))?
            .trim()
            .parse()?)
    }

    /// How long the main thread, which is the node's, has computed. Where the system does not say: always nothing.
    pub(super) fn computed(self) -> anyhow::Result<Duration> {
        let file = format!("/proc/{0}/task/{0}/schedstat", self.0);
        let Ok(line) = std::fs::read_to_string(&file) else {
            return Ok(Duration::ZERO);
        };
        let nanoseconds = line.split(' ').next().context(file)?;
        Ok(Duration::from_nanos(nanoseconds.trim().parse()?))
    }
}
