//! Keys in the file of settings that no setting has, all of them at once.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use toml::de::{DeTable, DeValue};

use super::spelling::nearest;

/// The keys of one table: its own, and those of the tables in it.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) own: &'static [&'static str],
    /// By the key of a table, or of an array of tables.
    pub(crate) below: Vec<(&'static str, Self)>,
}

impl Keys {
    /// Those that a struct reads, which has no tables in it.
    pub(crate) fn of<'de, T: Deserialize<'de>>() -> Self {
        Self { own: fields::<T>(), below: Vec::new() }
    }
}

/// The unknown keys of a settings file, one line each: where the key stands, and which known key it resembles.
pub(crate) fn unknown(text: &str, known: &Keys) -> Result<Vec<String>, toml::de::Error> {
    let table = DeTable::parse(text)?;
    let mut found = Vec::new();
    collect(table.get_ref(), known, "", &mut found);
    found.sort_by_key(|(at, _)| *at);
    let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    Ok(found.into_iter().map(|(at, told)| format!("line {}: {told}", line(at))).collect())
}

fn collect(table: &DeTable<'_>, known: &Keys, within: &str, found: &mut Vec<(usize, String)>) {
    for (key, value) in table {
        let (name, at) = (key.get_ref().as_ref(), key.span().start);
        if !known.own.contains(&name) {
            let meant = match nearest(name, known.own.iter().copied()) {
                Some(meant) => format!("is {meant} meant?"),
                None => format!("it has {}", known.own.join(", ")),
            };
            let place = if within.is_empty() { "the file" } else { within };
            found.push((at, format!("{name} is no key of {place}; {meant}")));
        } else if let Some((_, below)) = known.below.iter().find(|(key, _)| *key == name) {
            match value.get_ref() {
                DeValue::Table(table) => collect(table, below, &format!("[{name}]"), found),
                DeValue::Array(array) => {
                    let tables = array.iter().filter_map(|item| item.get_ref().as_table());
                    tables.for_each(|table| collect(table, below, &format!("[[{name}]]"), found));
                }
                // Told when its value is read.
                DeValue::String(_)
                | DeValue::Integer(_)
                | DeValue::Float(_)
                | DeValue::Boolean(_)
                | DeValue::Datetime(_) => {}
            }
        }
    }
}

/// The names of a struct's fields, as its derived `Deserialize` asks for them.
fn fields<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    struct Asked<'a>(&'a mut &'static [&'static str]);

    #[derive(Debug, thiserror::Error)]
    #[error("there is nothing to read")]
    struct Nothing;

    impl de::Error for Nothing {
        fn custom<M: fmt::Display>(_: M) -> Self {
            Self
        }
    }

    impl<'de> Deserializer<'de> for Asked<'_> {
        type Error = Nothing;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Nothing> {
            Err(Nothing)
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Nothing> {
            *self.0 = fields;
            Err(Nothing)
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
            unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    let mut fields: &'static [&'static str] = &[];
    // It always fails: all that is wanted is what it asked for.
    T::deserialize(Asked(&mut fields)).ok();
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    #[expect(dead_code, reason = "only their names are of interest")]
    struct Outer {
        listen: String,
        limits: Inner,
        clients: Vec<Inner>,
    }

    #[derive(serde::Deserialize)]
    #[expect(dead_code, reason = "only their names are of interest")]
    struct Inner {
        sign_in: String,
    }

    fn keys() -> Keys {
        let below = vec![("limits", Keys::of::<Inner>()), ("clients", Keys::of::<Inner>())];
        Keys { below, ..Keys::of::<Outer>() }
    }

    #[test]
    fn every_unknown_key_is_told_with_its_line_and_what_was_meant() {
        let text = "lissten = \"x\"\nlisten = 1\n\n[limits]\nsign-in = 1\nsign_in = 2\n\
                    [[clients]]\npassword = \"x\"\n[[clients]]\nsignin = 1\n[nonsense]\na = 1\n";

        let told = unknown(text, &keys()).unwrap();

        assert_eq!(
            told,
            [
                "line 1: lissten is no key of the file; is listen meant?",
                "line 5: sign-in is no key of [limits]; is sign_in meant?",
                "line 8: password is no key of [[clients]]; it has sign_in",
                "line 10: signin is no key of [[clients]]; is sign_in meant?",
                "line 11: nonsense is no key of the file; it has listen, limits, clients",
            ]
        );
    }

    #[test]
    fn inline_tables_count_and_known_keys_of_the_wrong_kind_are_left_to_the_reader() {
        let told = unknown("limits = 5\nclients = [{ signin = 1 }, 3]\n", &keys()).unwrap();

        assert_eq!(told, ["line 2: signin is no key of [[clients]]; is sign_in meant?"]);
        assert!(unknown("this is not TOML", &keys()).is_err());
    }
}
