//! The flags and feature gates of a program, from its help.

/// The `--help` text of a program.
pub struct Help(String);

impl<T: Into<String>> From<T> for Help {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl Help {
    /// Whether it knows `--name`.
    pub fn has_flag(&self, name: &str) -> bool {
        let flag = format!("--{name}");
        self.0
            .split([' ', '\n', '\t', '=', ',', '['])
            .any(|word| word == flag)
    }

    /// Whether the text contains a word, such as the name of a controller.
    pub fn mentions(&self, word: &str) -> bool {
        self.0.contains(word)
    }

    /// Whether it knows a feature gate that is off unless asked for.
    pub fn can_switch_on(&self, gate: &str) -> bool {
        let wanted = format!("{gate}=true|false");
        self.0.lines().any(|line| {
            line.trim_start()
                .trim_start_matches("kube:")
                .starts_with(&wanted)
                && line.contains("default=false")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_tells_flags_and_gates() {
        let help = Help(
            "      --port int   The port\n      --insecure-bind-address ip  x\n\
             --feature-gates mapStringBool\n   CSIStorageCapacity=true|false (ALPHA - default=false)\n\
             AnyVolumeDataSource=true|false (BETA - default=true)\n   kube:NewOne=true|false (ALPHA - default=false)"
                .to_owned(),
        );
        assert!(help.has_flag("port") && help.has_flag("insecure-bind-address"));
        assert!(!help.has_flag("insecure-port"));
        assert!(help.can_switch_on("CSIStorageCapacity") && help.can_switch_on("NewOne"));
        assert!(
            !help.can_switch_on("AnyVolumeDataSource")
                && !help.can_switch_on("GenericEphemeralVolume")
        );
    }
}
