//! Source: what several primary owners have assigned without knowing of each other.

use super::*;

/// Assignment of message 1 that another run has made.
fn assign(owner: &mut Owner, by: Dot, presence: Dot, clock: u64) -> Vec<Did> {
    let message = dot(9, 1);
    let assigned = AssignedMessage { message, presence };
    let clock = Hlc::at(clock);
    did(&owner.add(by, GroupEntry::Assignment { assigned, clock }))
}

/// Reads the part anew.
fn read_anew(owner: &mut Owner) -> Vec<Did> {
    owner.step(SourceEvent::PartLost(place()));
    did(&owner.step(SourceEvent::PartReady(place())))
}

/// Event of a lower run than that of the owner.
fn lower(number: u64) -> Dot {
    let run = run_of(1, 0);
    Dot { run, number }
}

#[test]
fn an_assignment_yields_to_that_of_a_lower_run_at_once() {
    let mut owner = Owner::new(10, 10);
    owner.publish(1);
    let made = owner.make(1, A());
    assert_eq!(assign(&mut owner, lower(1), B(), 50), [Did::Assigned(1, B())]);
    assert_eq!(owner.know(1, made), [], "it has yielded");
    let made = owner.make(1, B());
    assert_eq!(owner.know(1, made), [Did::Gave(1, B())]);
}

#[test]
fn an_assignment_yields_to_that_of_a_higher_run_once_every_node_knows_it() {
    let mut owner = Owner::new(10, 10);
    owner.publish(1);
    let made = owner.make(1, A());
    assert_eq!(assign(&mut owner, dot(4, 1), B(), 2_000), []);
    assert_eq!(owner.know(1, made), [Did::Assigned(1, B())]);
    let made = owner.make(1, B());
    assert_eq!(owner.know(1, made), [Did::Gave(1, B())]);
}

#[test]
fn an_assignment_to_the_same_presence_is_no_rival() {
    let mut owner = Owner::new(10, 10);
    owner.publish(1);
    let made = owner.make(1, A());
    assert_eq!(assign(&mut owner, lower(1), A(), 2_000), []);
    assert_eq!(owner.know(1, made), [Did::Gave(1, A())]);
}

#[test]
fn what_was_told_stays_also_when_the_part_is_read_anew() {
    let mut owner = Owner::new(10, 10);
    owner.publish(1);
    let made = owner.make(1, A());
    assert_eq!(owner.know(1, made), [Did::Gave(1, A())]);
    assert_eq!(assign(&mut owner, lower(1), B(), 2_000), []);
    assert_eq!(read_anew(&mut owner), [Did::Assigned(1, A())]);
    owner.make(1, A());
    owner.remove(made);
    assert_eq!(read_anew(&mut owner), [Did::Assigned(1, A())]);
}

#[test]
fn what_was_not_told_yields_also_when_the_part_is_read_anew() {
    let mut owner = Owner::new(10, 10);
    owner.publish(1);
    owner.make(1, A());
    owner.step(SourceEvent::PartLost(place()));
    assert_eq!(assign(&mut owner, lower(1), B(), 50), []);
    assert_eq!(read_anew(&mut owner), [Did::Assigned(1, B())]);
    let mut owner = Owner::new(10, 10);
    owner.publish(1);
    owner.make(1, A());
    owner.step(SourceEvent::PartLost(place()));
    assert_eq!(assign(&mut owner, dot(4, 1), B(), 2_000), []);
    assert_eq!(read_anew(&mut owner), [Did::Assigned(1, A())]);
    let made = owner.make(1, A());
    assert_eq!(owner.know(1, made), [Did::Assigned(1, B())]);
}

#[test]
fn a_message_goes_on_with_an_earlier_presence_that_may_have_it() {
    let mut owner = Owner::new(10, 10);
    owner.step(SourceEvent::PartLost(place()));
    owner.publish(1);
    assign(&mut owner, dot(4, 1), A(), 500);
    assign(&mut owner, dot(5, 1), B(), 600);
    owner.add(dot(2, 2), presence(2));
    assert_eq!(read_anew(&mut owner), [Did::Assigned(1, B())]);
    owner.make(1, B());
    assert_eq!(
        did(&owner.remove(B())),
        [Did::Assigned(1, A())],
        "and not a third one"
    );
}

#[test]
fn what_a_present_run_has_assigned_goes_first() {
    let mut owner = Owner::new(10, 10);
    owner.step(SourceEvent::PartLost(place()));
    owner.publish(1);
    assign(&mut owner, dot(2, 8), A(), 500);
    assign(&mut owner, dot(5, 1), B(), 600);
    assert_eq!(read_anew(&mut owner), [Did::Assigned(1, A())]);
}

#[test]
fn an_assignment_replaces_own_ones_and_those_to_presences_that_have_ended() {
    let mut owner = Owner::new(10, 10);
    owner.step(SourceEvent::PartLost(place()));
    owner.publish(1);
    assign(&mut owner, dot(4, 1), A(), 500);
    assign(&mut owner, dot(4, 2), dot(2, 77), 600);
    assign(&mut owner, dot(1, 99), A(), 700);
    let removes = owner
        .step(SourceEvent::PartReady(place()))
        .into_iter()
        .find_map(|action| match action {
            SourceAction::Assign { removes, .. } => Some(removes),
            _ => None,
        });
    assert_eq!(removes, Some(vec![dot(4, 2), dot(1, 99)]));
}

#[test]
fn a_message_that_does_not_count_takes_no_room_unless_it_was_told() {
    for is_told in [false, true] {
        let mut owner = Owner::new(10, 1);
        owner.remove(dot(3, 9));
        owner.publish(1);
        let made = owner.make(1, A());
        if is_told {
            owner.know(1, made);
        }
        owner.remove(dot(2, 9));
        let (birth, since) = (birth(2).dot, Hlc::at(200));
        owner.add(dot(2, 10), GroupEntry::Member { birth, since });
        let did = did(&owner.publish(200));
        assert_eq!(did.is_empty(), is_told, "{did:?}");
    }
}

#[test]
fn what_was_told_of_parts_that_are_lost_is_bounded() {
    let mut owner = Owner::new(1, 10);
    owner.publish(1);
    let made = owner.make(1, A());
    owner.know(1, made);
    owner.step(SourceEvent::PartLost(place()));
    assert_eq!(owner.source.remembered(), 1);
    let slot = group().slot(b"plant/8/cmd");
    let other = GroupPlace { slot, group: group() };
    owner.step(SourceEvent::PartReady(other.clone()));
    assert_eq!(owner.source.given(), 1);
    let (message, presence) = (dot(9, 1), A());
    let assigned = AssignedMessage { message, presence };
    let (dot, clock) = (dot(1, 50), Hlc::at(1_050));
    let made = MadeEvent { dot, clock };
    let place = other.clone();
    owner.step(SourceEvent::Assigned {
        place,
        assigned,
        made,
    });
    let place = other.clone();
    let assignment = dot;
    owner.step(SourceEvent::Known {
        place,
        message,
        assignment,
    });
    owner.step(SourceEvent::PartLost(other));
    assert_eq!(owner.source.remembered(), 1, "the other part is forgotten");
}
