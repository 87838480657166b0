use super::*;

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Thing {
    number: u32,
}

impl Thing {
    fn key(&self) -> String {
        self.number.to_string()
    }
}

kinds! {
    Thing Thing things,
}

fn thing(number: u32) -> Change {
    Change::Put(Object::Thing(Thing { number }))
}

#[tokio::test]
async fn what_was_durable_is_read_again_and_a_torn_line_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let (store, _) = Store::open::<State>(directory.path()).unwrap();
    store.append(&[thing(1)]).await.unwrap().unwrap();
    drop(store);
    let path = directory.path().join(JOURNAL);
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(&line(&[thing(2)])[..20]).unwrap();

    let (_store, state) = reopen(directory.path()).await;
    assert_eq!(state.things.keys().collect::<Vec<_>>(), ["1"]);
}

#[tokio::test]
async fn a_damaged_line_in_the_middle_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(JOURNAL);
    std::fs::write(&path, b"[]\nnonsense\n[]\n").unwrap();
    let error = Store::open::<State>(directory.path()).unwrap_err();
    assert!(error.to_string().contains("line 2"), "{error}");
}

#[tokio::test]
async fn a_directory_has_one_simulator() {
    let directory = tempfile::tempdir().unwrap();
    let (_store, _) = Store::open::<State>(directory.path()).unwrap();
    let error = Store::open::<State>(directory.path()).unwrap_err();
    assert!(matches!(error, StoreError::InUse(_)), "{error}");
}

/// The writer lets go of the directory a moment after the store is dropped.
async fn reopen(directory: &Path) -> (Store, State) {
    loop {
        match Store::open(directory) {
            Err(StoreError::InUse(_)) => tokio::task::yield_now().await,
            result => return result.unwrap(),
        }
    }
}
