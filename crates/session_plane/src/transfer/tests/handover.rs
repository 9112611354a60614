//! Deletion of copies that no ring names.

use super::*;
use crate::SlotSet;

/// Node with an abandoned copy, or one that is not.
struct Scene {
    handover: Handover,
    place: CopyPlace,
}

impl Scene {
    fn new(owners: &[u64]) -> Scene {
        Scene {
            handover: Handover::default(),
            place: CopyPlace {
                slot: slot(SLOT),
                owners: owners.iter().copied().map(node).collect(),
                owners_min: 3,
                is_abandoned: true,
                is_asked: false,
            },
        }
    }

    /// Use of the copy, and the owners to which it is offered.
    fn review(&mut self) -> (CopyUse, Vec<NodeId>) {
        let mut offers = Offers::default();
        let used = self.handover.review(&self.place, &mut offers);
        (used, offered(offers))
    }

    fn serve(&mut self, owner: u64, is_late: bool) {
        self.handover.receive_served(&Served {
            slot: slot(SLOT),
            owner: node(owner),
            is_late,
        });
    }
}

/// Owners to which the copy is offered, once each.
fn offered(offers: Offers) -> Vec<NodeId> {
    let actions: Vec<Action> = offers.into_actions().collect();
    let slots = SlotSet::from_iter([slot(SLOT)]);
    let offer = Message::Offer { slots };
    assert!(actions.iter().all(|action| action.message == offer));
    actions.iter().map(|action| action.to).collect()
}

#[test]
fn a_copy_is_deleted_when_its_owners_have_merged_late_answers() {
    let mut scene = Scene::new(&[2, 3, 4]);
    let all = vec![node(2), node(3), node(4)];
    assert_eq!(scene.review(), (CopyUse::Needed, all));
    scene.serve(2, true);
    scene.serve(3, true);
    scene.serve(4, false);
    assert!(!scene.handover.has_given(&scene.place), "one answer is early");
    assert_eq!(scene.review(), (CopyUse::Needed, vec![]));
    scene.serve(4, true);
    assert!(scene.handover.has_given(&scene.place));
    assert_eq!(scene.review(), (CopyUse::Unneeded, vec![]));
}

#[test]
fn answers_before_the_copy_is_abandoned_do_not_count() {
    let mut scene = Scene::new(&[2, 3, 4]);
    scene.place.is_abandoned = false;
    assert_eq!(scene.review().0, CopyUse::Needed);
    for owner in 2..=4 {
        scene.serve(owner, false);
    }
    assert!(
        scene.handover.has_given(&scene.place),
        "a node that joins has given"
    );
    scene.place.is_abandoned = true;
    assert_eq!(scene.review().1.len(), 3, "all are offered the copy");
    assert_eq!(scene.review(), (CopyUse::Needed, vec![]));
}

#[test]
fn a_copy_stays_while_it_is_asked_for_or_has_too_few_owners() {
    let mut scene = Scene::new(&[2, 3]);
    scene.review();
    scene.serve(2, true);
    scene.serve(3, true);
    assert_eq!(scene.review().0, CopyUse::Needed, "two of three owners");
    scene.place.owners_min = 2;
    scene.place.is_asked = true;
    assert_eq!(scene.review().0, CopyUse::Needed, "asked for");
    scene.place.is_asked = false;
    assert_eq!(scene.review().0, CopyUse::Unneeded);
}

#[test]
fn a_ring_that_names_the_node_again_begins_anew() {
    let mut scene = Scene::new(&[2, 3, 4]);
    scene.review();
    for owner in 2..=4 {
        scene.serve(owner, true);
    }
    scene.place.is_abandoned = false;
    assert_eq!(scene.review(), (CopyUse::Needed, vec![]));
    scene.place.is_abandoned = true;
    assert_eq!(scene.review().1.len(), 3);
    assert_eq!(scene.review().0, CopyUse::Needed);
}

#[test]
fn what_a_peer_has_merged_is_forgotten_with_it() {
    let mut scene = Scene::new(&[2, 3, 4]);
    scene.review();
    for owner in 2..=4 {
        scene.serve(owner, true);
    }
    scene.handover.forget(node(3));
    assert_eq!(scene.review().0, CopyUse::Needed);
    let mut offers = Offers::default();
    scene.handover.offer(&scene.place, &mut offers);
    assert_eq!(offered(offers), [node(3)]);
}

#[test]
fn a_ring_that_names_the_node_between_two_looks_begins_anew() {
    let mut scene = Scene::new(&[2, 3, 4]);
    scene.review();
    scene.serve(2, true);
    scene.serve(3, true);
    scene.handover.regain(&SlotSet::from_iter([slot(SLOT + 1)]));
    scene.serve(4, true);
    assert!(scene.handover.has_given(&scene.place), "another slot");
    scene.handover.regain(&SlotSet::from_iter([slot(SLOT)]));
    assert_eq!(scene.review().1.len(), 3, "what came since is offered to all");
    for owner in 2..=4 {
        scene.serve(owner, true);
    }
    assert_eq!(scene.review().0, CopyUse::Unneeded);
}
