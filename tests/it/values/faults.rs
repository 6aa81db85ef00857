//! Faults: their codes in JSON, and all of them as one sentence.

use subscription_core::{FaultCode, Faults, InvalidValue};

#[test]
fn a_code_is_written_in_json_as_it_is_named() {
    for code in FaultCode::ALL {
        let json = serde_json::to_string(&code).unwrap();

        assert_eq!(json, format!("\"{}\"", code.as_str()));
    }
}

#[test]
fn faults_read_as_one_sentence() {
    let mut faults = Faults::default();
    faults.push(InvalidValue::new(FaultCode::Required, "is required").at("name"));
    faults.push(InvalidValue::new(FaultCode::WrongType, "must be an object").at(""));

    assert_eq!(faults.to_string(), "name is required; the input must be an object");
}
