//! The known name that a misspelt one was meant to be.

/// The known name with the fewest typing errors between it and `name`, if they are few for its length.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.into_iter().map(|candidate| (distance(name, candidate), candidate));
    let (errors, candidate) = distances.min_by_key(|(errors, _)| *errors)?;
    (errors <= 1 + candidate.len() / 6).then_some(candidate)
}

/// How many bytes must be inserted, left out or replaced to get from one name to the other, where upper
/// and lower case, and `-` and `_`, are the same.
fn distance(from: &str, to: &str) -> usize {
    let plain = |text: &str| text.to_ascii_lowercase().replace('-', "_").into_bytes();
    let (from, to) = (plain(from), plain(to));
    // Levenshtein's, row by row.
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (above, a) in (1..).zip(&from) {
        let mut next = vec![above];
        for ((b, diagonal), up) in to.iter().zip(&row).zip(row.iter().skip(1)) {
            let left = next.last().copied().unwrap_or_default();
            next.push((diagonal + usize::from(a != b)).min(left + 1).min(up + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_finds_its_own_and_nonsense_finds_none() {
        let known = ["listen", "log", "max_connections", "max_connections_per_peer", "mode"];

        for (name, meant) in [
            ("lissten", Some("listen")),
            ("LISTEN", Some("listen")),
            ("max-connections", Some("max_connections")),
            ("max_conections", Some("max_connections")),
            ("maxconnectionsperpeer", Some("max_connections_per_peer")),
            ("lgo", None),
            ("password", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, known), meant, "{name}");
        }
    }
}
