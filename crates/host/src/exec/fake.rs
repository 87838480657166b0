//! [`FakeExec`]: answers for unit tests, and a record of what was asked.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::{Exec, ExecError, HostFuture, Invocation, Output, Tool};

type Answer = Box<dyn FnMut(&Invocation) -> Result<Output, ExecError> + Send>;

/// Tools that do nothing but answer. A tool without an answer is missing, as it would be on a bare machine.
#[derive(Default)]
pub struct FakeExec {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    answers: HashMap<&'static str, Answer>,
    calls: Vec<Invocation>,
}

impl FakeExec {
    /// A machine without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Installs a tool that returns 0 and says nothing.
    pub fn with(self, tool: Tool) -> Self {
        self.with_answer(tool, move |_| Ok(Output::exited(tool, 0)))
    }

    /// Installs a tool with an answer of its own; a later answer replaces an earlier one.
    pub fn with_answer(
        self,
        tool: Tool,
        answer: impl FnMut(&Invocation) -> Result<Output, ExecError> + Send + 'static,
    ) -> Self {
        self.state
            .lock()
            .answers
            .insert(tool.name, Box::new(answer));
        self
    }

    /// The command lines so far, in order; input and environment are not in them.
    pub fn calls(&self) -> Vec<String> {
        let line = |call: &Invocation| {
            let words = call
                .arguments()
                .iter()
                .map(|arg| arg.to_string_lossy().into_owned());
            std::iter::once(call.tool.name.to_owned())
                .chain(words)
                .collect::<Vec<_>>()
                .join(" ")
        };
        self.state.lock().calls.iter().map(line).collect()
    }

    /// What the call with this index (from 0) was given on its standard input.
    pub fn stdin_of(&self, call: usize) -> Option<Vec<u8>> {
        self.state
            .lock()
            .calls
            .get(call)
            .map(|call| call.stdin.clone())
    }
}

impl Exec for FakeExec {
    fn run(&self, invocation: Invocation) -> HostFuture<'_, Result<Output, ExecError>> {
        let tool = invocation.tool;
        let mut state = self.state.lock();
        state.calls.push(invocation.clone());
        let result = match state.answers.get_mut(tool.name) {
            Some(answer) => answer(&invocation),
            None => Err(ExecError::ToolMissing {
                tool: tool.name,
                package: tool.package,
            }),
        };
        Box::pin(std::future::ready(result))
    }
}
