//! Names, slugs, links, e-mail addresses, and the ids and labels of documents.

use std::fmt;
use std::str::FromStr;

use subscription_core::store::{Collection, DocumentId, Label};
use subscription_core::{Description, Email, FaultCode, Href, InvalidValue, Name, Slug};

fn code<T: FromStr<Err = InvalidValue> + fmt::Debug>(text: &str) -> FaultCode {
    text.parse::<T>().unwrap_err().code()
}

#[test]
fn text_is_trimmed_and_counted_in_characters() {
    let name: Name = "  Pro  ".parse().unwrap();

    assert_eq!(name.as_str(), "Pro");
    assert!("ü".repeat(200).parse::<Name>().is_ok());
    assert_eq!(code::<Name>(&"ü".repeat(201)), FaultCode::TooLong);
    assert_eq!(code::<Name>(&"x".repeat(1_000_000)), FaultCode::TooLong);
    assert_eq!(code::<Name>(" \t "), FaultCode::TooShort);
}

#[test]
fn text_keeps_to_the_width_that_is_asked_for() {
    let (name, slug): (Name, Slug) = ("Pro".parse().unwrap(), "pro".parse().unwrap());

    assert_eq!(format!("{name:5}|{slug:>5}"), "Pro  |  pro");
}

#[test]
fn control_characters_are_refused_but_for_lines_in_a_description() {
    for text in ["a\0b", "a\u{7f}b", "a\u{85}b", "a\nb", "a\tb"] {
        assert_eq!(code::<Name>(text), FaultCode::ControlCharacter, "{text:?}");
    }
    assert_eq!("a\n\tb".parse::<Description>().unwrap().as_str(), "a\n\tb");
    assert_eq!(code::<Description>("a\rb"), FaultCode::ControlCharacter);
    assert_eq!("".parse::<Description>().unwrap(), Description::default());
}

#[test]
fn slugs_are_plain_ascii() {
    for text in ["a", "pro", "pro-2025", "a--b", " pro ", &"a".repeat(64)] {
        assert!(text.parse::<Slug>().is_ok(), "{text}");
    }
    for text in ["-a", "a-", "-", "Pro", "pro_1", "a/b", "a.b", "a%2fb", "prо", "ﬁn", "a b"] {
        assert_eq!(code::<Slug>(text), FaultCode::BadFormat, "{text}");
    }
    assert_eq!(code::<Slug>(""), FaultCode::TooShort);
    assert_eq!(code::<Slug>(&"a".repeat(65)), FaultCode::TooLong);
    assert_eq!(code::<Slug>("a\0"), FaultCode::ControlCharacter);
}

#[test]
fn links_are_absolute_and_of_the_web() {
    for text in ["https://example.com", "HTTP://example.com/a?b=c#d", "https://[::1]:8080/ü"] {
        assert_eq!(text.parse::<Href>().unwrap().as_str(), text);
    }
    for text in [
        "example.com",
        "/plans",
        "//example.com",
        "https:example.com",
        "https://",
        "https:///",
        "https://exa mple.com",
        "javascript:alert(1)",
        "ftp://example.com",
        "data:text/html,x",
        "https://example.com:99999",
        "https:///example.com",
        "https://\\example.com",
        "https://example.com\\@example.org",
        "https://example.com/\"><script>",
    ] {
        assert_eq!(code::<Href>(text), FaultCode::BadFormat, "{text}");
    }
    let long = format!("https://example.com/{}", "a".repeat(2_029));
    assert_eq!(code::<Href>(&long), FaultCode::TooLong);
}

#[test]
fn addresses_are_the_same_without_case_and_in_the_domains_ascii_form() {
    let same = [
        ("Ada@Example.COM", "ada@example.com"),
        ("ada@bücher.example", "ADA@XN--BCHER-KVA.example"),
        ("ada@\u{ff45}xample.com", "ada@example.com"),
        ("ada@bu\u{308}cher.example", "ada@b\u{fc}cher.example"),
        (" ada+news@example.com ", "ada+news@example.com"),
    ];
    for (one, other) in same {
        let (one, other): (Email, Email) = (one.parse().unwrap(), other.parse().unwrap());

        assert_eq!(one, other);
    }
    let (one, other): (Email, Email) =
        ("ada@example.com".parse().unwrap(), "adb@example.com".parse().unwrap());
    assert_ne!(one, other);
}

#[test]
fn refuses_what_is_no_single_address() {
    for text in [
        "ada",
        "ada@",
        "@example.com",
        "ada@example",
        "ada@@example.com",
        "a b@example.com",
        "\"a b\"@example.com",
        "ada@[127.0.0.1]",
        "Ada <ada@example.com>",
        "ada@example.com, bob@example.com",
        "ada@exa_mple.com",
        "ada@-example.com",
        "ada@example..com",
        ".ada@example.com",
        "a\u{212a}a@example.com",
        "ad\u{131}@example.com",
        "\u{202e}ada@example.com",
    ] {
        assert_eq!(code::<Email>(text), FaultCode::BadFormat, "{text}");
    }
    assert_eq!(code::<Email>("ada\0@example.com"), FaultCode::ControlCharacter);
    let long = format!("{}@example.com", "a".repeat(250));
    assert_eq!(code::<Email>(&long), FaultCode::TooLong);
}

#[test]
fn debug_output_does_not_tell_the_address() {
    let email: Email = "ada@example.com".parse().unwrap();

    assert!(!format!("{email:?}").contains("ada"));
}

#[test]
fn ids_labels_and_collections_beyond_their_bounds_are_refused() {
    let longest = "x".repeat(100);
    for text in ["a", "0194b9e4/00000000000000000017", "~!", longest.as_str()] {
        assert_eq!(text.parse::<DocumentId>().unwrap().as_str(), text);
        assert_eq!(text.parse::<Label>().unwrap().as_str(), text);
    }
    for text in ["", "a b", "a\n", "ä", "\u{7f}", &"x".repeat(101)] {
        assert!(text.parse::<DocumentId>().is_err(), "{text:?}");
        assert!(text.parse::<Label>().is_err(), "{text:?}");
    }
    for text in ["", "Upper", "a-b", "a b", &"x".repeat(41)] {
        assert!(text.parse::<Collection>().is_err(), "{text:?}");
    }
    assert_eq!("webhook_endpoint".parse(), Ok(Collection::named("webhook_endpoint")));
}
