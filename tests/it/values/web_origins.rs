//! The web origins of pages that may call.

use subscription_core::FaultCode;
use subscription_core::accounts::WebOrigin;

#[test]
fn an_origin_is_written_as_browsers_write_it() {
    for (text, is_loopback) in [
        ("https://shop.example", false),
        ("https://shop.example:8443", false),
        ("https://xn--bcher-kva.example", false),
        ("https://192.0.2.7", false),
        ("https://localhost", true),
        ("http://localhost", true),
        ("http://localhost:5173", true),
        ("http://shop.localhost:3000", true),
        ("http://127.0.0.1:3000", true),
        ("http://127.1.2.3", true),
        ("http://[::1]:3000", true),
    ] {
        let origin: WebOrigin = text.parse().unwrap();

        assert_eq!(origin.as_str(), text);
        assert_eq!(origin.is_loopback(), is_loopback, "{text}");
    }
}

#[test]
fn what_no_browser_sends_or_anybody_could_be_is_no_origin() {
    for (text, told) in [
        ("*", "without *"),
        ("https://*.shop.example", "without *"),
        ("null", "such as https://shop.example"),
        ("", "such as https://shop.example"),
        ("shop.example", "such as https://shop.example"),
        ("file:///index.html", "such as https://shop.example"),
        ("ftp://shop.example", "such as https://shop.example"),
        ("http://shop.example", "must be https"),
        ("http://localhost.shop.example", "must be https"),
        ("http://127.0.0.1.shop.example", "must be https"),
        ("http://evillocalhost", "must be https"),
        ("https://shop.example/", "send it: https://shop.example"),
        ("https://shop.example/basket", "send it: https://shop.example"),
        ("https://shop.example:443", "send it: https://shop.example"),
        ("https://Shop.Example", "send it: https://shop.example"),
        ("https://ada@shop.example", "send it: https://shop.example"),
        ("https://b\u{fc}cher.example", "send it: https://xn--bcher-kva.example"),
        (" https://shop.example", "send it: https://shop.example"),
    ] {
        let refused = text.parse::<WebOrigin>().unwrap_err();

        assert_eq!(refused.code(), FaultCode::BadFormat, "{text}");
        assert!(refused.to_string().contains(told), "{text}: {refused}");
    }
}
