//! Looks at the database's files before the database opens them.
//!
//! The database takes a keyspace without its pointer for one that was never finished, and removes it; what its list does not name it removes as
//! well. So a file that is lost would take a keyspace with it, and nobody would be told. Here every file is looked at first, and nothing is
//! changed. Invariant: a database that passes has all tables that it has listed, byte for byte.
//!
//! ```text
//! version                     "FJL" 3
//! keyspaces/0                 the list of keyspaces, kept as a keyspace is
//! keyspaces/N/current         number of a version u64 | checksum of its file u128 | 0 u8             (little endian)
//! keyspaces/N/vV              an archive; its section "tables": levels u8, of each its runs u8, of each its tables u32,
//!                             of each its number u64 | 0 u8 | checksum of its file u128 | u64
//! keyspaces/N/tables/T        a table
//! ```

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3Default;

use crate::data_dir::OpenError;
use crate::fault::{Doing, Fault};

const VERSION: &[u8] = b"FJL\x03";
const CURRENT_LEN: usize = 8 + 16 + 1;

/// The kind of checksum that is known.
const XXH3: u8 = 0;

/// What is read at a time.
const CHUNK: usize = 256 << 10;

/// Checks the files of a database with so many keyspaces.
///
/// # Errors
/// Names the first file that is missing, or is not what was written.
pub(super) fn check(engine: &Path, keyspaces: usize) -> Result<(), OpenError> {
    let version = engine.join("version");
    if read(&version)?.as_slice() != VERSION {
        return Err(damaged(version, "it is not what was written"));
    }
    // It holds nothing, and the database does not open without it.
    open(&engine.join("lock"))?;
    // The list itself has number 0, the others follow.
    for number in 0..=keyspaces {
        check_keyspace(&engine.join("keyspaces").join(number.to_string()))?;
    }
    Ok(())
}

fn check_keyspace(keyspace: &Path) -> Result<(), OpenError> {
    let current = keyspace.join("current");
    let pointer = read(&current)?;
    let Some((number, checksum)) = parse_current(&pointer) else {
        return Err(damaged(current, "it is not what was written"));
    };
    let version = keyspace.join(format!("v{number}"));
    // Either of both may be the one that is damaged.
    check_file(&version, checksum).map_err(|error| match error {
        OpenError::Damaged { file, .. } => {
            damaged(file, "it is missing, or does not fit to `current` beside it")
        }
        error => error,
    })?;
    let tables = tables(&version).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
            damaged(version.clone(), "its tables cannot be read")
        }
        _ => unreadable(error),
    })?;
    for (table, checksum) in tables {
        check_file(&keyspace.join("tables").join(table.to_string()), checksum)?;
    }
    Ok(())
}

fn parse_current(pointer: &[u8]) -> Option<(u64, u128)> {
    let pointer: &[u8; CURRENT_LEN] = pointer.try_into().ok()?;
    let (number, rest) = pointer.split_first_chunk()?;
    let (checksum, kind) = rest.split_first_chunk()?;
    (kind == [XXH3]).then(|| (u64::from_le_bytes(*number), u128::from_le_bytes(*checksum)))
}

/// The tables of a version: their numbers and checksums.
fn tables(version: &Path) -> io::Result<Vec<(u64, u128)>> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    let archive = sfa::Reader::new(version).map_err(|error| match error {
        sfa::Error::Io(error) => error,
        _ => damaged(),
    })?;
    let section = archive.toc().section(b"tables").ok_or_else(damaged)?;
    let mut reader = BufReader::new(section.buf_reader(version)?);
    let mut tables = Vec::new();
    for _ in 0..number::<1>(&mut reader)?[0] {
        for _ in 0..number::<1>(&mut reader)?[0] {
            for _ in 0..u32::from_le_bytes(number(&mut reader)?) {
                let table = u64::from_le_bytes(number(&mut reader)?);
                if number::<1>(&mut reader)? != [XXH3] {
                    return Err(damaged());
                }
                tables.push((table, u128::from_le_bytes(number(&mut reader)?)));
                number::<8>(&mut reader)?;
            }
        }
    }
    Ok(tables)
}

fn number<const LEN: usize>(reader: &mut impl Read) -> io::Result<[u8; LEN]> {
    let mut bytes = [0; LEN];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn check_file(file: &Path, checksum: u128) -> Result<(), OpenError> {
    let mut opened = open(file)?;
    let mut hasher = Xxh3Default::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        match opened.read(&mut chunk).map_err(unreadable)? {
            0 => break,
            count => hasher.update(&chunk[..count]),
        }
    }
    if hasher.digest128() == checksum {
        Ok(())
    } else {
        Err(damaged(file.to_owned(), "its checksum does not fit"))
    }
}

fn read(file: &Path) -> Result<Vec<u8>, OpenError> {
    let mut bytes = Vec::new();
    open(file)?
        .take(CHUNK as u64)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    Ok(bytes)
}

fn open(file: &Path) -> Result<File, OpenError> {
    File::open(file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => damaged(file.to_owned(), "it is missing"),
        _ => unreadable(error),
    })
}

fn damaged(file: PathBuf, what: &'static str) -> OpenError {
    OpenError::Damaged { file, what }
}

fn unreadable(error: io::Error) -> OpenError {
    Fault::from_io(Doing::Opening, error).into()
}
