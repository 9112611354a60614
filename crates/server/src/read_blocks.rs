//! Memory that sockets read to.
//!
//! All sockets share one block. What was read is cut out of it without a copy, so a small message that stays keeps all of
//! its block alive. Blocks that are full stay in a list until nobody has a part of them: what the list holds is what the
//! messages really cost, and the first block that is free again is the next to be read to.

use std::collections::VecDeque;

use bytes::BytesMut;

/// The block that is read to, and those that are full.
#[derive(Debug, Default)]
pub(crate) struct ReadBlocks {
    current: Option<BytesMut>,
    /// The end of each full block, which is empty. The oldest is first.
    full: VecDeque<BytesMut>,
}

/// Bytes asked of a socket at once.
pub(crate) const BLOCK: usize = 64 * 1024;

/// Less room is not read to.
const ROOM_MIN: usize = BLOCK / 4;

/// Full blocks that are looked at for each one that is needed: so the list gets shorter sooner than it grows.
const LOOKED_AT: usize = 4;

impl ReadBlocks {
    /// Where to read to, with room at its end.
    pub(crate) fn room(&mut self) -> &mut BytesMut {
        let has_room = |block: &BytesMut| block.capacity() >= ROOM_MIN;
        if let Some(full) = self.current.take_if(|block| !has_room(block)) {
            self.full.push_back(full);
        }
        if self.current.is_none() {
            self.current = self.take_free(LOOKED_AT);
        }
        self.current.get_or_insert_with(|| BytesMut::with_capacity(BLOCK))
    }

    /// Gives back memory that nobody has a part of any more. Called once in a turn.
    pub(crate) fn sweep(&mut self) {
        self.take_free(LOOKED_AT);
    }

    /// Bytes of the blocks that are kept alive.
    pub(crate) fn held(&self) -> usize {
        self.full.len() * BLOCK
    }

    /// A block that nobody else has a part of, if there is one among the oldest. Those that are in use go to the end.
    fn take_free(&mut self, looked_at: usize) -> Option<BytesMut> {
        for _ in 0..looked_at.min(self.full.len()) {
            let mut block = self.full.pop_front()?;
            if block.try_reclaim(BLOCK) {
                return Some(block);
            }
            self.full.push_back(block);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills the block that is read to, and gives what was read.
    fn read(blocks: &mut ReadBlocks) -> BytesMut {
        let room = blocks.room();
        let bytes = room.capacity();
        room.resize(bytes, 7);
        room.split()
    }

    #[test]
    fn a_part_keeps_its_block_until_it_is_dropped() {
        let mut blocks = ReadBlocks::default();
        let kept: Vec<_> = (0..10).map(|_| read(&mut blocks).split_to(1).freeze()).collect();
        blocks.room();
        assert_eq!(blocks.held(), 10 * BLOCK);
        drop(kept);
        for _ in 0..10 {
            blocks.sweep();
        }
        assert_eq!(blocks.held(), 0);
    }

    #[test]
    fn a_block_that_is_free_is_read_to_again() {
        let mut blocks = ReadBlocks::default();
        for _ in 0..100 {
            drop(read(&mut blocks));
        }
        blocks.room();
        assert!(blocks.held() <= BLOCK, "{} bytes", blocks.held());
    }
}
