//! Ids: sorted by time, written as plain UUIDs.

use subscription_core::{
    EventId, FaultCode, PlanId, SeededRandomness, SystemRandomness, Timestamp, UserId,
};
use uuid::Uuid;

#[test]
fn ids_sort_as_their_moments_do_to_the_microsecond() {
    let ids = SeededRandomness::new(7);
    let start: Timestamp = "2025-01-31T00:00:00Z".parse().unwrap();

    let made: Vec<PlanId> = (0..5_000)
        .map(|micros| Timestamp::from_micros(start.micros() + micros).unwrap())
        .map(|at| PlanId::new(at, &ids).unwrap())
        .collect();

    assert!(made.is_sorted_by(|a, b| a < b));
}

#[test]
fn an_id_is_a_uuid_of_version_7_at_both_ends_of_time() {
    for at in [Timestamp::MIN, Timestamp::MAX] {
        let id = EventId::new(at, &SystemRandomness).unwrap();

        assert_eq!(id.uuid().get_version_num(), 7, "{at}");
        assert_eq!(id.uuid().get_variant(), uuid::Variant::RFC4122, "{at}");
    }
}

#[test]
fn a_foreign_name_has_the_id_that_other_languages_give_it() {
    let namespace = Uuid::new_v5(&Uuid::NAMESPACE_DNS, b"shop.example");

    // As the module `uuid` of Python has them.
    for (text, id) in [
        ("42", "966d0ee2-0ba0-53f6-be20-3288f30aad07"),
        ("042", "bc1e4cf9-c2f2-515c-a4bf-962108f46b71"),
        ("", "84f90269-4450-5307-b9cf-595b01f81e69"),
        ("Zo\u{eb}", "77c3e848-dd16-5386-9a8f-e36b39b7584b"),
    ] {
        let user = UserId::from_foreign(namespace, text);

        assert_eq!(user.to_string(), id, "{text:?}");
        assert_eq!(user.to_string().parse(), Ok(user), "{text:?}");
    }
}

#[test]
fn reads_and_writes_plain_uuid_text_only() {
    let text = "01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e77";
    let id: PlanId = text.to_uppercase().parse().unwrap();

    assert_eq!(id.to_string(), text);
    assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{text}\""));
    assert_eq!(serde_json::from_str::<PlanId>(&format!("\"{text}\"")).unwrap(), id);
    for other in [
        "",
        "plan",
        "01933b6e7a5c7cc08f3e2d9c5b1a4e77",
        "{01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e77}",
        "urn:uuid:01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e77",
        "01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e7g",
    ] {
        assert_eq!(other.parse::<PlanId>().unwrap_err().code(), FaultCode::BadFormat, "{other}");
    }
}

#[test]
fn a_seed_repeats_its_ids() {
    let at = Timestamp::MIN;
    let first = PlanId::new(at, &SeededRandomness::new(1)).unwrap();

    assert_eq!(PlanId::new(at, &SeededRandomness::new(1)).unwrap(), first);
    assert_ne!(PlanId::new(at, &SeededRandomness::new(2)).unwrap(), first);
}
