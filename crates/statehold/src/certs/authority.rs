//! An authority for trying out.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, bail};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

/// An authority, from the files of a directory.
pub(super) struct Authority(Issuer<'static, KeyPair>);

/// What all certificates of an authority for trying out say of themselves.
const ORGANIZATION: &str = "Statehold test";

/// How long certificates are good, if nobody says otherwise.
const VALID: Duration = Duration::from_hours(365 * 24);

/// The same of an authority.
const AUTHORITY_VALID: Duration = Duration::from_hours(10 * 365 * 24);

/// Clocks are not all right: a new certificate is good an hour ago already.
const CLOCKS_DIFFER: Duration = Duration::from_hours(1);

impl Authority {
    /// A new one.
    pub(super) fn make(name: &str, valid: Option<Duration>) -> anyhow::Result<(Certificate, KeyPair)> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        for_trying_out(&mut params, valid.unwrap_or(AUTHORITY_VALID));
        let key = KeyPair::generate().context("cannot make a key")?;
        let certificate = params.self_signed(&key).context("cannot make an authority")?;
        Ok((certificate, key))
    }

    /// That of a directory.
    pub(super) fn read(directory: &Path) -> anyhow::Result<Self> {
        let (cert, key) = (directory.join("ca.pem"), directory.join("ca.key"));
        if !cert.exists() {
            bail!(
                "{} is not there: make it with `statehold certs ca --out {}`",
                cert.display(),
                directory.display()
            );
        }
        let read = |file: &Path| {
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
        };
        let pair =
            KeyPair::from_pem(&read(&key)?).with_context(|| format!("cannot use {}", key.display()))?;
        let issuer = Issuer::from_ca_cert_pem(&read(&cert)?, pair);
        Ok(Self(
            issuer.with_context(|| format!("cannot use {}", cert.display()))?,
        ))
    }

    pub(super) fn sign(
        &self,
        mut params: CertificateParams,
        key: &KeyPair,
        valid: Option<Duration>,
    ) -> anyhow::Result<Certificate> {
        for_trying_out(&mut params, valid.unwrap_or(VALID));
        params.use_authority_key_identifier_extension = true;
        params
            .signed_by(key, &self.0)
            .context("cannot sign the certificate")
    }
}

fn for_trying_out(params: &mut CertificateParams, valid: Duration) {
    params
        .distinguished_name
        .push(DnType::OrganizationName, ORGANIZATION);
    let now = UNIX_EPOCH + Duration::from_millis(server::clock::wall());
    params.not_before = (now - CLOCKS_DIFFER).into();
    params.not_after = (now + valid).into();
}
