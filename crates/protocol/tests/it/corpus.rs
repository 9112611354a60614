//! The inputs that the fuzz targets start from and that once failed, replayed.

use std::path::Path;

use crate::check;

#[test]
fn stored_packets_are_decoded_or_refused() {
    replay("decode", check::decode_input);
}

#[test]
fn stored_topic_filters_match_what_they_should() {
    replay("topic_filter", check::topic_filter_input);
}

fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let mut count = 0;
    for file in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        check(&std::fs::read(file.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 20, "only {count} inputs in {}", folder.display());
}
