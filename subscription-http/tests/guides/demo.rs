//! The lines that `subscription-http demo` prints for its reader to run.

use libtest_mimic::Failed;

use crate::script::Script;
use crate::story::{folder, run_script};

/// The port of the lines is another here: the one that the server of this test has.
const SCRIPT: &str = r#"
subscription-http demo --subscriptions 120 --seed 7 > told
subscription-http --listen 127.0.0.1:8080 > /dev/null &
until_ready 8080
grep curl told | sed -e 's/127\.0\.0\.1:[0-9]*/127.0.0.1:8080/' -e 's/curl/curl -fS/' > lines
while read -r line; do
    bash -c "$line"
    echo
done < lines
"#;

pub(crate) fn run() -> Result<(), Failed> {
    let script = Script::new(SCRIPT).with_free_ports();

    let out = run_script(&folder("demo"), &script.text)?;

    let answers: Vec<_> = out.lines().filter(|line| !line.is_empty()).collect();
    if answers.len() != 4 {
        return Err(format!("there are four lines to run, not {}:\n{out}", answers.len()).into());
    }
    for answer in answers {
        let answer: serde_json::Value = serde_json::from_str(answer)?;
        let data = answer.get("data").and_then(serde_json::Value::as_array);
        let empty = data.is_some_and(Vec::is_empty);
        if !answer.is_object() || empty {
            return Err(format!("an answer shows nothing: {answer}").into());
        }
    }
    Ok(())
}
