//! Reads certificates, keys and lists of revoked certificates.

use std::fs;
use std::io;
use std::path::Path;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use super::error::{TlsError, TlsProblem};

/// A list of a million certificates has about 40 MB. A larger file is refused.
const LIST_BYTES_MAX: u64 = 128 << 20;

/// All certificates of a PEM file, at least one.
pub(crate) fn certificates(setting: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unusable = |cause| {
        let file = file.to_owned();
        TlsProblem::File { file, cause }.at(setting)
    };
    let certificates = CertificateDer::pem_file_iter(file).map_err(unusable)?;
    let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(unusable)?;
    if certificates.is_empty() {
        let file = file.to_owned();
        return Err(TlsProblem::NoCertificate { file }.at(setting));
    }
    Ok(certificates)
}

/// The private key of a PEM file.
pub(crate) fn private_key(setting: &str, file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(file).map_err(|cause| {
        let (has_passphrase, file) = (has_passphrase(file), file.to_owned());
        if has_passphrase {
            return TlsProblem::Passphrase { file }.at(setting);
        }
        TlsProblem::File { file, cause }.at(setting)
    })
}

/// Whether the key in a file is encrypted, in the form of PKCS #8 or in that of OpenSSL.
fn has_passphrase(file: &Path) -> bool {
    let text = fs::read(file).unwrap_or_default();
    let has = |marks: &[u8]| text.windows(marks.len()).any(|part| part == marks);
    has(b"BEGIN ENCRYPTED PRIVATE KEY") || has(b"Proc-Type: 4,ENCRYPTED")
}

/// All lists of a file in PEM, at least one; or the list of a file in DER.
pub(crate) fn revocation_lists(
    setting: &str,
    file: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let bytes = read_list(file).map_err(|cause| {
        let file = file.to_owned();
        TlsProblem::Unread { file, cause }.at(setting)
    })?;
    if bytes.first() == Some(&DER_SEQUENCE) {
        return Ok(vec![CertificateRevocationListDer::from(bytes)]);
    }
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&bytes).collect();
    let lists = lists.map_err(|cause| {
        let file = file.to_owned();
        TlsProblem::File { file, cause }.at(setting)
    })?;
    if lists.is_empty() {
        let file = file.to_owned();
        return Err(TlsProblem::NoList { file }.at(setting));
    }
    Ok(lists)
}

fn read_list(file: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(file)?.len() > LIST_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    fs::read(file)
}

/// What a structure in DER begins with; no text of PEM does.
const DER_SEQUENCE: u8 = 0x30;
