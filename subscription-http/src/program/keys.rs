//! The key file. It holds keys that sign access tokens, server keys for refresh tokens, portal tokens, client keys and
//! webhook secrets, and the key that authenticates the cursors of lists.
//!
//! The lists `signing` and `server` begin with the next key, which is not used yet. `key rotate` starts to use that key
//! and creates a new next key. So every instance knows a key for one rotation before the key signs anything, and
//! instances can be restarted one after the other.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::SecretSlice;
use serde::{Deserialize, Serialize};
use subscription_core::auth::{KeyRing, ServerKeys, SigningKey};
use subscription_core::{Randomness as _, SystemRandomness};

use super::Failure;

/// The maximum number of old keys of each kind, which only verify signatures. An old server key that a webhook endpoint
/// needs is kept even if there are more than this number.
const RETIRED_MAX: usize = 4;

const HEAD: &str = "\
# The keys of subscription-http. With them anyone can sign in as any user: keep this file secret (mode 0600),
# and the same on every instance. In `signing` and in `server` the first key is the next one, the second is in
# use, and the others only verify what they signed. `subscription-http key rotate` adds a key at the front.
";

/// The keys, in the format of the key file.
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
    /// Creates new keys: for each kind the key in use and the next key.
    pub(crate) fn generate() -> Result<Self, Failure> {
        Ok(Self {
            cursor: random()?,
            signing: vec![Signing { ed25519: random()? }, Signing { ed25519: random()? }],
            server: vec![ServerKey { id: 2, key: random()? }, ServerKey { id: 1, key: random()? }],
        })
    }

    /// Starts to use the next keys, and creates a new next key of each kind. The oldest keys are dropped, except the
    /// server keys in `named`, which webhook endpoints need. `None` means that the endpoints cannot be read: then no
    /// server key is dropped.
    pub(crate) fn rotate(&mut self, named: Option<&BTreeSet<u8>>) -> Result<(), Failure> {
        self.signing.insert(0, Signing { ed25519: random()? });
        self.signing.truncate(RETIRED_MAX + 2);
        // Old keys are dropped before the new id is chosen, so that their ids are free.
        let mut place = 0;
        self.server.retain(|key| {
            place += 1;
            place <= RETIRED_MAX + 1 || named.is_none_or(|named| named.contains(&key.id))
        });
        let id = self.unused_id(named)?;
        self.server.insert(0, ServerKey { id, key: random()? });
        Ok(())
    }

    /// The id for a new server key: an id that neither a server key nor a webhook endpoint uses. The search begins
    /// after the id of the newest key, and continues with 1 after 255. An endpoint may use the id of a key that the key
    /// file no longer has. If a new key had this id, the secret of that endpoint would be derived from the wrong key.
    fn unused_id(&self, named: Option<&BTreeSet<u8>>) -> Result<u8, Failure> {
        let newest = self.server.first().map_or(0, |newest| newest.id);
        let is_free = |id: &u8| {
            !self.server.iter().any(|key| key.id == *id)
                && !named.is_some_and(|named| named.contains(id))
        };
        let mut ids = (newest..=u8::MAX).skip(1).chain(1..=newest);
        ids.find(is_free).ok_or_else(|| {
            Failure::new(
                "all 255 ids of server keys are in use, because webhook endpoints still need old keys, or because the \
                 endpoints cannot be read: rotate the secrets of the endpoints, or make the database reachable, then \
                 run `key rotate` again",
            )
        })
    }

    /// True if the next rotation drops an old server key. Client keys that were created with the dropped server key
    /// then stop working.
    pub(crate) fn are_full(&self, named: &BTreeSet<u8>) -> bool {
        self.server.iter().skip(RETIRED_MAX + 1).any(|key| !named.contains(&key.id))
    }

    /// Reads the key file. Returns `None` if the file does not exist.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, Failure> {
        let failure = |why: &dyn Display| Failure(format!("the keys in {}: {why}", path.display()));
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failure(&error)),
        };
        // Asked of the open file: the path may lead to another file a moment later.
        let mode = file.metadata().map_err(|error| failure(&error))?;
        if mode.permissions().mode() & 0o077 != 0 {
            return Err(failure(&"others can read them: chmod 600 the file, and rotate the keys"));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| failure(&error))?;
        // The parser's error is not shown: it quotes the text, which may be a key.
        let form = "they are not of the form that `subscription-http key rotate` writes";
        let keys: Self = toml::from_str(&text).map_err(|_| failure(&form))?;
        if keys.signing.len() < 2 || keys.server.len() < 2 {
            return Err(failure(
                &"`signing` and `server` each need two keys: the next one, and the one in use",
            ));
        }
        let usable = keys.cursor().and(keys.ring().map(drop)).and(keys.server_keys().map(drop));
        usable.map_err(|error| failure(&error))?;
        Ok(Some(keys))
    }

    /// Writes the keys to a temporary file in the folder of the key file, so that later only a hard link or a rename is
    /// needed. Only its owner can read the file.
    pub(crate) fn prepare(&self, path: &Path) -> Result<NewKeys, Failure> {
        let text = toml::to_string(self)?;
        let mut beside = path.as_os_str().to_owned();
        // The name is random. The id of the process would not be unique: in containers that share a volume, all
        // processes may have the same id.
        beside.push(format!(".{}.new", random()?));
        let new = NewKeys { path: path.to_owned(), beside: beside.into() };
        let written = || {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new.beside)?;
            file.write_all(HEAD.as_bytes())?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        written().map_err(|error| new.failure(&error))?;
        Ok(new)
    }

    pub(crate) fn cursor(&self) -> Result<SecretSlice<u8>, Failure> {
        decoded(&self.cursor)
    }

    pub(crate) fn ring(&self) -> Result<KeyRing, Failure> {
        let key = |key: &Signing| Ok::<_, Failure>(SigningKey::ed25519(&decoded(&key.ed25519)?)?);
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

/// New keys in a temporary file. The key file does not have them yet. Dropping this value deletes the temporary file.
pub(crate) struct NewKeys {
    path: PathBuf,
    beside: PathBuf,
}

impl NewKeys {
    /// Makes the temporary file the key file if there is no key file yet, then reads the key file. If several processes
    /// do this at the same time, all of them get the keys of the first.
    pub(crate) fn create(self) -> Result<Keys, Failure> {
        let linked = match std::fs::hard_link(&self.beside, &self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                // Not every file system has hard links. A rename works there, but it replaces a key file that another
                // process has just created.
                std::fs::rename(&self.beside, &self.path)
            }
            _ => Ok(()),
        };
        linked.and_then(|()| self.sync()).map_err(|error| self.failure(&error))?;
        Keys::read(&self.path)?.ok_or_else(|| self.failure(&io::ErrorKind::NotFound.into()))
    }

    /// Replaces the existing key file.
    pub(crate) fn replace(self) -> Result<(), Failure> {
        let renamed = std::fs::rename(&self.beside, &self.path).and_then(|()| self.sync());
        renamed.map_err(|error| self.failure(&error))
    }

    /// Flushes the directory, so that the file's name survives a power cut.
    fn sync(&self) -> io::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }

    fn failure(&self, error: &io::Error) -> Failure {
        Failure(format!("cannot write the keys to {}: {error}", self.path.display()))
    }
}

impl Drop for NewKeys {
    fn drop(&mut self) {
        std::fs::remove_file(&self.beside).ok();
    }
}

/// 256 random bits as text.
pub(crate) fn random() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    SystemRandomness.fill(&mut bytes)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn decoded(text: &str) -> Result<SecretSlice<u8>, Failure> {
    URL_SAFE_NO_PAD.decode(text).map(SecretSlice::from).map_err(|_| bad())
}

fn bad() -> Failure {
    Failure::new("one of the keys in the file is not valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_for_a_whole_rotation_before_it_signs() {
        let mut keys = Keys::generate().unwrap();
        let next = keys.signing.first().unwrap().ed25519.clone();
        let current = keys.server_keys().unwrap().current();

        let none = BTreeSet::new();
        keys.rotate(Some(&none)).unwrap();

        assert_eq!(keys.signing.get(1).unwrap().ed25519, next);
        assert_eq!(keys.server_keys().unwrap().current(), current + 1);
        // The ids of server keys wrap around at 255.
        for _ in 0..600 {
            keys.rotate(Some(&none)).unwrap();
            keys.server_keys().and(keys.ring()).unwrap();
        }
        assert_eq!((keys.signing.len(), keys.server.len()), (RETIRED_MAX + 2, RETIRED_MAX + 2));
    }

    #[test]
    fn w14_a_server_key_that_an_endpoint_names_is_not_dropped_and_its_id_is_not_given_again() {
        let mut keys = Keys::generate().unwrap();
        let first = keys.server.get(1).unwrap().key.clone();
        // A database that was copied from elsewhere names a key that is not here.
        let named = BTreeSet::from([1, 5]);

        for _ in 0..600 {
            keys.rotate(Some(&named)).unwrap();
        }

        let of = |id| keys.server.iter().filter(|key| key.id == id).collect::<Vec<_>>();
        assert_eq!(of(1).iter().map(|key| &key.key).collect::<Vec<_>>(), [&first]);
        assert_eq!((of(5).len(), keys.server.len()), (0, RETIRED_MAX + 3));
        assert!(
            keys.are_full(&named)
                && !keys.are_full(&keys.server.iter().map(|key| key.id).collect())
        );
    }

    #[test]
    fn no_server_key_is_dropped_where_endpoints_cannot_be_read() {
        let mut keys = Keys::generate().unwrap();

        for _ in 0..253 {
            keys.rotate(None).unwrap();
        }

        assert_eq!(keys.server.len(), 255);
        keys.server_keys().unwrap();
        assert!(keys.rotate(None).unwrap_err().to_string().contains("255 ids"));
    }

    #[test]
    fn when_all_ids_are_used_a_rotation_that_can_drop_keys_succeeds() {
        let mut keys = Keys::generate().unwrap();
        for _ in 0..253 {
            keys.rotate(None).unwrap();
        }

        for _ in 0..600 {
            keys.rotate(Some(&BTreeSet::from([1]))).unwrap();
        }

        assert_eq!(keys.server.len(), RETIRED_MAX + 3);
        keys.server_keys().unwrap();
    }
}
