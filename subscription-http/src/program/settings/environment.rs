//! Variables of the environment that look like settings and are none.

use super::spelling::nearest;
use crate::program::Failure;

const PREFIX: &str = "SUBSCRIPTION_";
/// For the tests of this project.
const TEST_PREFIX: &str = "SUBSCRIPTION_TEST_";

/// Refuses variables that begin as ours do and that no setting has: a misspelt one would be ignored.
pub(crate) fn check(
    variables: impl IntoIterator<Item = (String, String)>,
    known: &[String],
) -> Result<(), Failure> {
    let ours = |name: &str| name.starts_with(PREFIX) && !name.starts_with(TEST_PREFIX);
    let mut unknown: Vec<_> = variables
        .into_iter()
        .filter(|(name, value)| ours(name) && !known.contains(name) && !is_link(name, value))
        .map(|(name, _)| match nearest(&name, known.iter().map(String::as_str)) {
            Some(meant) => format!("{name}: is {meant} meant?"),
            None => name,
        })
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    unknown.sort();
    Err(Failure::new(format!(
        "no setting has these variables (--help lists all that there are)\n  - {}",
        unknown.join("\n  - ")
    )))
}

/// True for the variables that Kubernetes sets in every container about a service that is
/// called `subscription…`: `SUBSCRIPTION_HTTP_SERVICE_HOST`, `SUBSCRIPTION_HTTP_PORT_8080_TCP_ADDR`.
fn is_link(name: &str, value: &str) -> bool {
    let is_port = |rest: &str| {
        let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        digits.len() < rest.len()
            && ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| digits.starts_with(protocol))
    };
    name.contains("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.split("_PORT_").skip(1).any(is_port)
        || (name.ends_with("_PORT") && value.contains("://"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(variables: &[(&str, &str)]) -> Result<(), String> {
        let known = ["SUBSCRIPTION_LISTEN", "SUBSCRIPTION_LOG"].map(str::to_owned);
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        check(variables, &known).map_err(|failure| failure.to_string())
    }

    #[test]
    fn all_that_are_misspelt_are_told_at_once() {
        let told = checked(&[
            ("SUBSCRIPTION_LOG", "info"),
            ("SUBSCRIPTION_PASSWORD", "secret"),
            ("SUBSCRIPTION_LISTN", "127.0.0.1:1"),
            ("LISTEN", "here"),
        ])
        .unwrap_err();

        assert!(told.contains("- SUBSCRIPTION_LISTN: is SUBSCRIPTION_LISTEN meant?\n"), "{told}");
        assert!(told.ends_with("- SUBSCRIPTION_PASSWORD"), "{told}");
        assert!(!told.contains("secret"), "{told}");
    }

    #[test]
    fn those_of_tests_and_of_container_platforms_are_let_be() {
        let told = checked(&[
            ("SUBSCRIPTION_TEST_POSTGRES", "skip"),
            ("SUBSCRIPTION_HTTP_SERVICE_HOST", "10.0.0.1"),
            ("SUBSCRIPTION_HTTP_SERVICE_PORT", "8080"),
            ("SUBSCRIPTION_HTTP_SERVICE_PORT_HTTP", "8080"),
            ("SUBSCRIPTION_HTTP_PORT", "tcp://10.0.0.1:8080"),
            ("SUBSCRIPTION_HTTP_PORT_8080_TCP_PROTO", "tcp"),
            ("SUBSCRIPTION_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
        ]);

        assert_eq!(told, Ok(()));
        assert!(checked(&[("SUBSCRIPTION_PORT", "8080")]).is_err());
    }
}
