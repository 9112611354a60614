use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};

use super::*;
use crate::{Birth, Dot, Run};

mod sink;
mod source;

fn run_of(node: u64, start: u32) -> Run {
    Run {
        node: NodeId(node),
        incarnation: Incarnation(start),
    }
}

fn run(node: u64) -> Run {
    run_of(node, 1)
}

fn dot(node: u64, number: u64) -> Dot {
    let run = run(node);
    Dot { run, number }
}

fn birth(number: u64) -> Birth {
    Birth {
        dot: dot(9, number),
        clock: Hlc::at(number),
        is_clean: false,
    }
}

fn group() -> GroupId {
    GroupId::new(b"presses").expect("a short name")
}
