//! Simulated servers, alone and in clusters, step by step.
//!
//! One server is a `sim::Machine`; three of them with a network between them are a [`world::World`]. Who talks to them is in `client.rs`.

mod broken_links;
mod client;
mod clock;
mod clocks;
mod copies;
mod cut_off_storms;
mod damage;
mod ended_sessions;
mod forwarding;
mod groups;
mod handing_over;
mod keep_alive;
mod lagging;
mod losses;
mod membership;
mod merging;
mod messages;
mod node_states;
mod notifications;
mod owed;
mod pacing;
mod parting_storms;
mod places;
mod progress;
mod reply_limits;
mod response_memory;
mod retained;
mod retained_pages;
mod sent_again;
mod sides;
mod slow_disk;
mod split_shapes;
mod storms;
mod taking_over;
mod traces;
mod waiting_requests;
mod wandering;
mod wandering_storms;
mod watch_loss;
mod wills;
mod withdrawal;
mod work;
mod world;
