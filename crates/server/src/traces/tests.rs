use super::*;

#[test]
fn a_ratio_is_a_part_of_all() {
    for (ratio, part) in [
        (0.0, 0),
        (0.5, SAMPLED_ALL / 2),
        (1.0, SAMPLED_ALL),
        (f64::NAN, 0),
        (7.0, SAMPLED_ALL),
    ] {
        assert_eq!(part_of_all(ratio), part, "{ratio}");
    }
}

#[test]
fn without_a_collector_nothing_is_traced() {
    let settings = Otlp::default();
    assert_eq!(config(&settings, 1), None);
    assert!(TracesFiles::load(&settings).expect("nothing to read").is_none());
}
