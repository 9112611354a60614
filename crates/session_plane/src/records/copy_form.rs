//! Form of the record of a copy.

use crate::wire::{Fault, Field, Reader, WireError, Writer};

/// Where the sets of events of a copy are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyForm {
    /// In the record of shared sets. It was written before there were cohorts.
    Shared = 0,
    /// Behind the form. It was written before there were cohorts.
    Own = 1,
    /// In the record of a cohort, whose number is behind the form.
    OfCohort = 2,
}

impl Field for CopyForm {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_byte(*self as u8);
    }

    fn take(reader: &mut Reader) -> Result<CopyForm, WireError> {
        match reader.byte()? {
            0 => Ok(CopyForm::Shared),
            1 => Ok(CopyForm::Own),
            2 => Ok(CopyForm::OfCohort),
            found => Err(reader.error(Fault::UnknownForm { found })),
        }
    }
}
