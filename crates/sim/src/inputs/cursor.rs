//! An input, read from the front. At its end there are zeros.

/// What is left of an input.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Self { rest: input }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub(super) fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// One of them.
    pub(super) fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[usize::from(self.byte()) % of.len()].clone()
    }

    /// As many bytes as the next one says, or what there is.
    pub(super) fn chunk(&mut self) -> &'a [u8] {
        let length = self.byte();
        self.take(length.into())
    }

    /// As many bytes as the next two say, or what there is.
    pub(super) fn long_chunk(&mut self) -> &'a [u8] {
        let length = self.number();
        self.take(length.into())
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        taken
    }
}
