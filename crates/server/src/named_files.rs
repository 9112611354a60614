//! Files that the settings name, read before the server starts.
//!
//! `serve` begins with them and `config check` ends with them: what one refuses, the other refuses, with the same words. Nothing is
//! written, bound or connected here. Invariant: a server that has [`NamedFiles`] needs no other file of its settings to start.

use crate::admin::AdminFiles;
use crate::audit;
use crate::authentication::Methods;
use crate::authorization::PolicyFiles;
use crate::config::Config;
use crate::error::RunError;
use crate::exposure::{self, Exposure};
use crate::logging;
use crate::peers::PeerTls;
use crate::tls::{Tls, TlsError};
use crate::traces::TracesFiles;

/// What was read from the files of the settings.
#[derive(Debug)]
pub(crate) struct NamedFiles {
    /// One for each listener, in the order of the settings; `None` where there is no TLS.
    pub(crate) listeners: Vec<Option<Tls>>,
    /// `None`: there is no cluster, or its nodes talk in clear.
    pub(crate) peers: Option<(PeerTls, Tls)>,
    pub(crate) admin: AdminFiles,
    pub(crate) methods: Option<Methods>,
    pub(crate) policies: PolicyFiles,
    pub(crate) encryption: storage::Encryption,
    pub(crate) traces: Option<TracesFiles>,
    /// What others of the machine could use, and the server starts nevertheless.
    pub(crate) warnings: Vec<Exposure>,
}

impl NamedFiles {
    /// Reads all files; the error names each that cannot be used.
    pub(crate) fn load(config: &Config) -> Result<Self, RunError> {
        let mut problems = Problems::default();
        let exposures = exposure::look(config);
        problems
            .0
            .extend(exposures.errors.into_iter().map(RunError::Exposed));
        let mut listeners = Vec::new();
        for (index, settings) in config.listeners.iter().enumerate() {
            let name = format!("listeners[{index}].tls");
            let tls = settings.tls.as_ref().map(|tls| Tls::load(&name, tls));
            listeners.push(problems.keep(tls.transpose()).flatten());
        }
        let peers = problems.keep(load_peers(config));
        let admin = problems.keep(AdminFiles::load(&config.admin));
        let methods = problems.keep(Methods::load(config));
        let policies = problems.keep(PolicyFiles::load(config));
        let encryption = problems.keep(config.encryption.for_storage());
        let traces = problems.keep(TracesFiles::load(&config.otlp));
        match (peers, admin, methods, policies, encryption, traces) {
            (Some(peers), Some(admin), Some(methods), Some(policies), Some(encryption), Some(traces))
                if problems.0.is_empty() =>
            {
                Ok(Self {
                    listeners,
                    peers,
                    admin,
                    methods,
                    policies,
                    encryption,
                    traces,
                    warnings: exposures.warnings,
                })
            }
            _ => Err(problems.into_error()),
        }
    }

    /// Tells what others of the machine could use.
    pub(crate) fn with_warnings_logged(self) -> Self {
        for warning in &self.warnings {
            tracing::warn!("{warning}");
        }
        self
    }
}

/// Whether a server would take these settings and the files that they name. Ports and the data directory are not looked at: a
/// server that runs has them. What it would warn of is returned.
///
/// # Errors
/// All that is wrong, as [`crate::run`] would say it.
pub fn check(config: &Config) -> Result<Vec<Exposure>, RunError> {
    config.check()?;
    let mut problems = Problems::default();
    problems.keep(logging::check(&config.log));
    problems.keep(audit::check(&config.audit));
    match problems.keep(NamedFiles::load(config)) {
        Some(files) if problems.0.is_empty() => Ok(files.warnings),
        _ => Err(problems.into_error()),
    }
}

fn load_peers(config: &Config) -> Result<Option<(PeerTls, Tls)>, TlsError> {
    let settings = config.cluster.as_ref().map(|settings| &settings.tls);
    Ok(settings.map(PeerTls::load).transpose()?.flatten())
}

/// Everything that is wrong, so that an operator need not start once for each mistake.
#[derive(Debug, Default)]
struct Problems(Vec<RunError>);

impl Problems {
    fn keep<T, E: Into<RunError>>(&mut self, loaded: Result<T, E>) -> Option<T> {
        match loaded.map_err(Into::into) {
            Ok(loaded) => Some(loaded),
            Err(RunError::Several(problems)) => {
                self.0.extend(problems);
                None
            }
            Err(problem) => {
                self.0.push(problem);
                None
            }
        }
    }

    fn into_error(mut self) -> RunError {
        match self.0.pop() {
            Some(only) if self.0.is_empty() => only,
            last => {
                self.0.extend(last);
                RunError::Several(self.0)
            }
        }
    }
}
