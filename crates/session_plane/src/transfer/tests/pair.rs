//! Transfer between two copies, message by message.

use super::*;

/// Asker with its copy, the naive copy beside it.
pub(crate) struct Exchanged {
    pub(crate) asker: Pair,
    asking: Asker<Value, ()>,
    holding: Holder<Value, ()>,
    /// Bytes that were sent in both directions.
    pub(crate) bytes: usize,
}

fn is_merged(received: &PartReceived<Value>) -> bool {
    matches!(received, PartReceived::Merged { .. })
}

const ASKER: u64 = 1;
const HOLDER: u64 = 2;

impl Exchanged {
    pub(crate) fn new(asker: Pair, bytes_max: usize) -> Exchanged {
        Exchanged {
            asker,
            asking: Asker::new(asker_limits(bytes_max)),
            holding: Holder::new(holder_limits(bytes_max)),
            bytes: 0,
        }
    }

    /// Transfers the slot from `holder`; the asker makes one of `between` before each message.
    pub(crate) fn run(&mut self, holder: &Pair, history: &[Event], mut between: VecDeque<CopyStep>) {
        self.asking.begin(slot(SLOT), &BTreeSet::from([node(HOLDER)]));
        let mut actions = Vec::new();
        let copy = &self.asker.copy;
        self.asking
            .ask(|_| Some(Vec::new()), |_| Some(copy.covered()), &mut actions);
        let mut messages = 0;
        while let Some(action) = actions.pop() {
            assert!(actions.is_empty(), "one message is under way at a time");
            self.bytes += action.message.bytes();
            if let Some(step) = between.pop_front() {
                self.asker.step(history, &[], &step);
            }
            self.receive(holder, action, &mut actions);
            messages += 1;
            assert!(messages < 10_000, "the transfer does not end");
        }
        assert!(self.asking.is_merged(slot(SLOT)));
        assert!(!self.holding.is_asked(slot(SLOT)));
    }

    fn receive(&mut self, holder: &Pair, action: Action, actions: &mut Vec<Action>) {
        match action.message {
            Message::AskSlots(ask) => {
                for ask in ask.each() {
                    self.holding
                        .receive_question(node(ASKER), ask)
                        .expect("one question");
                }
                self.holding
                    .begin_ready(|_| None, |_| held_with_digest(&holder.copy), actions);
            }
            Message::SlotDigests(digests) => {
                let (slot, question) = (slot(SLOT), digests.question);
                let begin = (&digests.begin, &digests.slots[0]);
                let copy = &mut self.asker.copy;
                let id = AnswerId { slot, question };
                let received = self.asking.receive_digest(node(HOLDER), id, begin, copy, actions);
                if is_merged(&received.expect("the begin")) {
                    self.asker.naive.merge(&holder.naive);
                }
            }
            Message::AskPart(ask) => {
                let entries = Some(holder.copy.entries());
                self.holding
                    .receive_ask_part(node(ASKER), &ask, entries, actions)
                    .expect("the next part");
            }
            Message::SlotPart(part) => {
                let received = self
                    .asking
                    .receive_part(node(HOLDER), part, &mut self.asker.copy, actions);
                if is_merged(&received.expect("the next part")) {
                    self.asker.naive.merge(&holder.naive);
                }
            }
            Message::SlotsMerged(merged) => {
                let id = merged.answers().next().expect("one slot");
                let served = self.holding.receive_merged(node(ASKER), id);
                assert!(served.expect("the answer").is_some());
            }
            Message::DropQuestion(_) | Message::Offer { .. } => unreachable!("nothing is given up"),
        }
    }
}
