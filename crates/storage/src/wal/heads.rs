//! Reads what the files of the log say of themselves in clear.

use std::io;
use std::path::Path;

use super::last::{self, Found, Last};
use super::segment;
use crate::heads::Heads;

/// Adds the heads of all segments that were begun, and of LAST. Without a directory there are none. Changes nothing.
pub(crate) fn read_heads(dir: &Path, heads: &mut Heads) -> io::Result<()> {
    let segments = match segment::list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        listing => listing?.segments,
    };
    for number in segments {
        if let Some(header) = segment::read_header(dir, number)? {
            let path = segment::path(dir, number);
            heads.directories.push((path.clone(), header.directory));
            heads.stamps.push((path, header.stamp));
        }
    }
    if let Found::Last(last) = Last::read(dir)? {
        heads.directories.push((last::path(dir), last.directory));
    }
    Ok(())
}
