//! Traces on their way to a collector of OpenTelemetry.
//!
//! The node's thread hands over the spans that are over, and waits for nobody: where there is no room for one it is dropped and counted.
//! A thread of its own sends them, in batches, tries again while the collector has trouble, and sends what is left when the server stops.

mod encoding;
mod exporter;
mod values;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use cluster::NodeId;
use mqtt::traces::{SAMPLED_ALL, Span, TracesConfig};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

use self::encoding::Resource;
use self::exporter::Exporter;
use crate::audit::Audit;
use crate::config::Otlp;
use crate::https_client::{
    ClientTlsError, Headers, HeadersError, HttpsClient, RequestLimits, TlsFiles, Url, UrlError,
};

/// Where spans of the node go. What waits is sent when this is dropped, as far as that is possible soon.
#[derive(Debug)]
pub(crate) struct Traces {
    spans: Option<mpsc::Sender<Span>>,
    counts: Arc<SpanCounts>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What became of spans.
#[derive(Debug, Default)]
pub(crate) struct SpanCounts {
    pub(crate) exported: AtomicU64,
    /// There was no room for them, or no time any more.
    pub(crate) dropped: AtomicU64,
    /// The collector did not take them.
    pub(crate) refused: AtomicU64,
}

/// Why traces cannot be sent.
#[derive(Debug, Error)]
pub enum TracesError {
    /// The address of the collector.
    #[error("`otlp.endpoint`: {0}")]
    Endpoint(#[from] UrlError),
    /// The files of TLS.
    #[error("`otlp`: {0}")]
    Tls(#[from] ClientTlsError),
    /// Headers of requests.
    #[error(transparent)]
    Headers(#[from] HeadersError),
    /// The thread that sends them.
    #[error("cannot start the thread for traces: {0}")]
    Thread(#[from] io::Error),
}

/// As settings call it.
const SETTING: &str = "otlp";

/// A collector says what it did not take, and why.
const ANSWER_BYTES_MAX: usize = 64 * 1_024;

/// What is traced.
pub(crate) fn config(settings: &Otlp, seed: u64) -> Option<TracesConfig> {
    settings.is_on().then(|| TracesConfig {
        sampled: part_of_all(settings.sample_ratio),
        seed,
    })
}

/// So many of all.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a part between none and all; which one exactly does not matter"
)]
fn part_of_all(ratio: f64) -> u64 {
    (ratio.clamp(0.0, 1.0) * SAMPLED_ALL as f64) as u64
}

/// What requests to the collector are made with.
#[derive(Debug)]
pub(crate) struct TracesFiles {
    client: HttpsClient,
    path: String,
    headers: Headers,
    settings: Otlp,
}

impl TracesFiles {
    /// Reads the files; `None`: nothing is traced.
    pub(crate) fn load(settings: &Otlp) -> Result<Option<Self>, TracesError> {
        if !settings.is_on() {
            return Ok(None);
        }
        let url = Url::parse(&settings.endpoint, true)?;
        let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
        let files = TlsFiles {
            ca: settings.ca.clone(),
            cert: settings.cert.clone(),
            key: settings.key.clone(),
        };
        let limits = RequestLimits {
            timeout: settings.timeout,
            requests_max: 1,
            body_bytes_max: ANSWER_BYTES_MAX,
        };
        Ok(Some(Self {
            client: HttpsClient::new(url, files, limits)?,
            path,
            headers: Headers::load(SETTING, &settings.headers, &settings.header_files)?,
            settings: settings.clone(),
        }))
    }
}

impl Traces {
    /// Starts the thread.
    pub(crate) fn start(files: TracesFiles, node: NodeId) -> Result<Self, TracesError> {
        let TracesFiles {
            client,
            path,
            headers,
            settings,
        } = files;
        let counts = Arc::new(SpanCounts::default());
        let exporter = Exporter {
            client,
            path,
            headers,
            resource: Resource::new(&settings.service_name, node),
            interval: settings.interval,
            counts: Arc::clone(&counts),
        };
        let (spans, received) = mpsc::channel(settings.spans_max as usize);
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let audit = Audit::of_thread();
        let run = move || {
            audit.adopt_thread();
            runtime.block_on(exporter.run(received, stopped));
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("traces".to_owned()).spawn(run)?;
        Ok(Self {
            spans: Some(spans),
            counts,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Takes spans as far as there is room.
    pub(crate) fn take(&self, spans: Vec<Span>) {
        let Some(sender) = &self.spans else { return };
        for span in spans {
            if sender.try_send(span).is_err() {
                self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// What became of spans, by result.
    pub(crate) fn counts(&self) -> crate::metrics::Counts {
        let counts = &self.counts;
        crate::metrics::Counts::from([
            ("exported", counts.exported.load(Ordering::Relaxed)),
            ("dropped", counts.dropped.load(Ordering::Relaxed)),
            ("refused", counts.refused.load(Ordering::Relaxed)),
        ])
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        drop(self.spans.take());
        if let Some(stop) = self.stop.take() {
            // It may have ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by its thread.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
