//! The file of keys: those that sign access tokens, those that refresh tokens and client keys are made
//! with, and the one that protects cursors.
//!
//! Of each kind there is always one that is not used yet. `key rotate` takes it into use and makes the
//! next: so every instance has known a key for a whole rotation before anything is signed with it, and
//! they can be started anew one after the other.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::SecretSlice;
use serde::{Deserialize, Serialize};
use subscription_core::auth::{KeyRing, ServerKeys, SigningKey};
use subscription_core::{Randomness as _, SystemRandomness};

use super::Failure;

/// Keys that have done their time and still check, of each kind.
const RETIRED_MAX: usize = 4;

const HEAD: &str = "\
# The keys of subscription-http. Whoever has them can be anybody: keep this file to yourself (mode 0600),
# the same on every instance. In each list the first is the next one, the second is in use, and the
# others only check what they signed. `subscription-http key rotate` moves all on by one.
";

/// The keys as they are kept.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Keys {
    cursor: String,
    signing: Vec<Signing>,
    server: Vec<ServerKey>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signing {
    ed25519: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerKey {
    id: u8,
    key: String,
}

impl Keys {
    /// New ones, of each kind the one in use and the next.
    pub(crate) fn generate() -> Result<Self, Failure> {
        Ok(Self {
            cursor: random()?,
            signing: vec![Signing { ed25519: random()? }, Signing { ed25519: random()? }],
            server: vec![ServerKey { id: 2, key: random()? }, ServerKey { id: 1, key: random()? }],
        })
    }

    /// Takes the next ones into use.
    pub(crate) fn rotate(&mut self) -> Result<(), Failure> {
        self.signing.insert(0, Signing { ed25519: random()? });
        self.signing.truncate(RETIRED_MAX + 2);
        let id = self.server.first().map_or(1, |newest| newest.id.checked_add(1).unwrap_or(1));
        self.server.insert(0, ServerKey { id, key: random()? });
        self.server.truncate(RETIRED_MAX + 2);
        Ok(())
    }

    /// True if the next rotation drops the oldest, and what was made under it counts no longer.
    pub(crate) fn are_full(&self) -> bool {
        self.server.len() >= RETIRED_MAX + 2
    }

    /// Reads the file. `None` if there is none.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, Failure> {
        let told = |why: String| Failure::new(format!("the keys in {}: {why}", path.display()));
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(told(error.to_string())),
        };
        let mode = std::fs::metadata(path).map_err(|error| told(error.to_string()))?;
        if mode.permissions().mode() & 0o077 != 0 {
            return Err(told("others can read them: chmod 600 it, and rotate them".to_owned()));
        }
        // The parser quotes what it cannot read, which may be a key.
        let form = "they are not of the form that `subscription-http key rotate` writes";
        let keys: Self = toml::from_str(&text).map_err(|_| told(form.to_owned()))?;
        if keys.signing.len() < 2 || keys.server.len() < 2 {
            return Err(told("each kind needs the next one and the one in use".to_owned()));
        }
        keys.check().map_err(|failure| told(failure.to_string()))?;
        Ok(Some(keys))
    }

    /// Writes the file, whole or not at all, for the owner's eyes only.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        self.prepare(path)?.replace()
    }

    /// Writes all of a new file but its name, so that hardly anything can go wrong any more.
    pub(crate) fn prepare(&self, path: &Path) -> Result<NewKeys, Failure> {
        let text = toml::to_string(self).map_err(|error| Failure::new(error.to_string()))?;
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}.new", std::process::id()));
        let new = NewKeys { path: path.to_owned(), beside: beside.into() };
        // A file that was left half written is of no use to anybody.
        std::fs::remove_file(&new.beside).ok();
        let written = || {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new.beside)?;
            file.write_all(HEAD.as_bytes())?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        written().map_err(|error| new.told(&error))?;
        Ok(new)
    }

    /// Checks that all of them can be used.
    fn check(&self) -> Result<(), Failure> {
        self.cursor().and(self.ring().map(drop)).and(self.server_keys().map(drop))
    }

    pub(crate) fn cursor(&self) -> Result<SecretSlice<u8>, Failure> {
        decoded(&self.cursor)
    }

    pub(crate) fn ring(&self) -> Result<KeyRing, Failure> {
        let key = |signing: &Signing| {
            SigningKey::ed25519(&decoded(&signing.ed25519)?).map_err(Failure::from)
        };
        let [next, current, retired @ ..] = self.signing.as_slice() else { return Err(bad()) };
        let ring = KeyRing::new(key(current)?).and_checks(key(next)?)?;
        retired.iter().try_fold(ring, |ring, retired| Ok(ring.and_checks(key(retired)?)?))
    }

    pub(crate) fn server_keys(&self) -> Result<ServerKeys, Failure> {
        let [next, current, retired @ ..] = self.server.as_slice() else { return Err(bad()) };
        let keys = ServerKeys::new(current.id, decoded(&current.key)?)?;
        let keys = keys.and_checks(next.id, decoded(&next.key)?)?;
        retired.iter().try_fold(keys, |keys, retired| {
            Ok(keys.and_checks(retired.id, decoded(&retired.key)?)?)
        })
    }
}

/// Keys whose file is written, beside its place. Dropped, it is gone.
pub(crate) struct NewKeys {
    path: PathBuf,
    beside: PathBuf,
}

impl NewKeys {
    /// Puts the file in its place if there is none. Of several that do so at once, all get the keys of
    /// the first.
    pub(crate) fn create(self) -> Result<Keys, Failure> {
        let linked = match std::fs::hard_link(&self.beside, &self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                // Not every file system can give a file two names.
                std::fs::rename(&self.beside, &self.path)
            }
            _ => Ok(()),
        };
        linked.and_then(|()| self.sync()).map_err(|error| self.told(&error))?;
        Keys::read(&self.path)?.ok_or_else(|| self.told(&io::ErrorKind::NotFound.into()))
    }

    /// Puts the file in the place of the last one.
    fn replace(self) -> Result<(), Failure> {
        let renamed = std::fs::rename(&self.beside, &self.path).and_then(|()| self.sync());
        renamed.map_err(|error| self.told(&error))
    }

    /// Makes the name of the file survive a power cut.
    fn sync(&self) -> io::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }

    fn told(&self, error: &io::Error) -> Failure {
        Failure::new(format!("cannot write the keys to {}: {error}", self.path.display()))
    }
}

impl Drop for NewKeys {
    fn drop(&mut self) {
        std::fs::remove_file(&self.beside).ok();
    }
}

fn random() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    SystemRandomness.fill(&mut bytes)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn decoded(text: &str) -> Result<SecretSlice<u8>, Failure> {
    URL_SAFE_NO_PAD.decode(text).map(SecretSlice::from).map_err(|_| bad())
}

fn bad() -> Failure {
    Failure::new("one of them is no key")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_for_a_whole_rotation_before_it_signs() {
        let mut keys = Keys::generate().unwrap();
        let next = keys.signing.first().unwrap().ed25519.clone();
        let current = keys.server_keys().unwrap().current();

        keys.rotate().unwrap();

        assert_eq!(keys.signing.get(1).unwrap().ed25519, next);
        assert_eq!(keys.server_keys().unwrap().current(), current + 1);
        for _ in 0..600 {
            keys.rotate().unwrap();
            keys.server_keys().unwrap();
            keys.ring().unwrap();
        }
        assert_eq!(keys.signing.len(), RETIRED_MAX + 2);
    }
}
