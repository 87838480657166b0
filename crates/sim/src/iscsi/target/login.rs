//! Who somebody is, and what is agreed upon.

use std::io;
use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::{Guest, Storage};
use crate::iscsi::chap::{ALGORITHM, Challenge, hex, parse_hex};
use crate::iscsi::pdu::{Opcode, Pdu, nonsense};
use crate::iscsi::text::Texts;

/// Stages of a login.
const SECURITY: u8 = 0;
const OPERATIONAL: u8 = 1;
const FULL_FEATURE: u8 = 3;

/// Why somebody is not let in: class and detail.
type Rejection = (u8, u8);
const AUTHENTICATION_FAILED: Rejection = (2, 1);
const FORBIDDEN: Rejection = (2, 2);
const NOT_FOUND: Rejection = (2, 3);
const MISSING_PARAMETER: Rejection = (2, 7);
const WRONG_SESSION_TYPE: Rejection = (2, 9);

/// The most data of a PDU to us.
pub const LONGEST_DATA: u32 = 256 << 10;

/// What is agreed upon.
pub struct Agreed {
    /// The initiator.
    pub initiator: String,
    /// Who it is; nobody in particular in a session for discovery.
    pub guest: Option<Guest>,
    /// The most data of a PDU to the initiator.
    pub longest_data: usize,
    /// The most data that is asked for at once.
    pub longest_burst: usize,
    /// The number of the next command, and of the next answer.
    pub command: u32,
    /// The number of the next answer.
    pub status: u32,
}

/// How far a login is.
struct Login<'a> {
    storage: &'a dyn Storage,
    address: IpAddr,
    said: Texts,
    challenge: Option<Challenge>,
    authenticated: bool,
    status: u32,
}

/// Lets somebody in; none if not.
pub async fn log_in<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    storage: &dyn Storage,
    address: IpAddr,
) -> io::Result<Option<Agreed>> {
    let mut login = Login {
        storage,
        address,
        said: Texts::default(),
        challenge: None,
        authenticated: false,
        status: 0,
    };
    while let Some(request) = Pdu::read(stream).await? {
        if request.opcode()? != Opcode::Login {
            return Err(nonsense("something else before the login"));
        }
        let fresh = Texts::read(&request.data)?;
        login.said.extend(fresh.clone());
        let (stage, next) = (request.byte(1) >> 2 & 3, request.byte(1) & 3);
        let answered = login.answer(stage, &fresh);
        let mut response = login.response(&request);
        let (texts, may_go_on) = match answered {
            Ok(answer) => answer,
            Err((class, detail)) => {
                response.set_byte(36, class);
                response.set_byte(37, detail);
                response.write(stream).await?;
                stream.flush().await?;
                return Ok(None);
            }
        };
        let moves = request.byte(1) & 0x80 != 0 && may_go_on;
        response.set_byte(1, stage << 2 | if moves { 0x80 | next } else { 0 });
        response.data = texts.write();
        let is_last = moves && next == FULL_FEATURE;
        if is_last {
            response.set_bytes(14, &1_u16.to_be_bytes());
        }
        response.write(stream).await?;
        stream.flush().await?;
        login.status += 1;
        if is_last {
            return Ok(Some(login.agreed(&request)));
        }
    }
    Ok(None)
}

impl Login<'_> {
    fn response(&self, request: &Pdu) -> Pdu {
        let mut response = Pdu::new(Opcode::LoginResponse);
        response.set_bytes(8, &request.bytes::<6>(8));
        response.set_u32(16, request.task());
        response.set_u32(24, self.status);
        response.set_u32(28, request.u32(24));
        response.set_u32(32, request.u32(24).wrapping_add(32));
        response
    }

    /// What is said to a request, and whether the next stage may be entered.
    fn answer(&mut self, stage: u8, fresh: &Texts) -> Result<(Texts, bool), Rejection> {
        let initiator = self.said.get("InitiatorName").ok_or(MISSING_PARAMETER)?;
        let is_discovery = match self.said.get("SessionType") {
            None | Some("Normal") => false,
            Some("Discovery") => true,
            Some(_) => return Err(WRONG_SESSION_TYPE),
        };
        if !is_discovery {
            let target = self.said.get("TargetName").ok_or(MISSING_PARAMETER)?;
            if target != self.storage.target_name() {
                return Err(NOT_FOUND);
            }
            let known = self.storage.admit(initiator, self.address);
            let guest = known.ok_or(FORBIDDEN)?;
            if !self.authenticated {
                return match stage {
                    SECURITY => self.authenticate(&guest, fresh),
                    // Nobody is let in who has not shown who they are.
                    _ => Err(AUTHENTICATION_FAILED),
                };
            }
        }
        let mut texts = Texts::default();
        if stage == SECURITY && fresh.get("AuthMethod").is_some() {
            texts.add("AuthMethod", "None");
        }
        if stage == OPERATIONAL {
            negotiate(fresh, &mut texts);
        }
        Ok((texts, true))
    }

    fn authenticate(&mut self, guest: &Guest, fresh: &Texts) -> Result<(Texts, bool), Rejection> {
        let mut texts = Texts::default();
        if let Some(methods) = fresh.get("AuthMethod") {
            if !methods.split(',').any(|method| method == "CHAP") {
                return Err(AUTHENTICATION_FAILED);
            }
            texts.add("AuthMethod", "CHAP");
            texts.add("TargetPortalGroupTag", "1");
            return Ok((texts, false));
        }
        if let Some(algorithms) = fresh.get("CHAP_A") {
            if !algorithms
                .split(',')
                .any(|algorithm| algorithm == ALGORITHM)
            {
                return Err(AUTHENTICATION_FAILED);
            }
            let challenge = Challenge::fresh();
            texts.add("CHAP_A", ALGORITHM);
            texts.add("CHAP_I", challenge.id.to_string());
            texts.add("CHAP_C", hex(&challenge.bytes));
            self.challenge = Some(challenge);
            return Ok((texts, false));
        }
        let challenge = self.challenge.take().ok_or(AUTHENTICATION_FAILED)?;
        let answer = fresh.get("CHAP_R").and_then(parse_hex);
        let is_right = fresh.get("CHAP_N") == Some(&guest.user)
            && answer == Some(challenge.answer(&guest.secret))
            // The target shows nobody who it is.
            && fresh.get("CHAP_C").is_none();
        if !is_right {
            return Err(AUTHENTICATION_FAILED);
        }
        self.authenticated = true;
        Ok((texts, true))
    }

    fn agreed(self, last: &Pdu) -> Agreed {
        let initiator = self.said.get("InitiatorName").unwrap_or_default();
        let number = |key: &str, default: u32| {
            let said = self.said.number(key).unwrap_or(default);
            usize::try_from(said.clamp(512, 16 << 20)).unwrap_or(8192)
        };
        Agreed {
            guest: if self.authenticated {
                self.storage.admit(initiator, self.address)
            } else {
                None
            },
            longest_data: number("MaxRecvDataSegmentLength", 8192),
            longest_burst: number("MaxBurstLength", 262_144).min(1 << 20),
            command: last.u32(24),
            status: self.status,
            initiator: initiator.to_owned(),
        }
    }
}

/// What is agreed upon beyond who is who. Data beyond the command is asked for, one burst at a time.
fn negotiate(said: &Texts, texts: &mut Texts) {
    for key in said.keys() {
        let value = match key {
            "HeaderDigest" | "DataDigest" => "None".to_owned(),
            "InitialR2T" | "DataPDUInOrder" | "DataSequenceInOrder" => "Yes".to_owned(),
            "ImmediateData" => said.get(key).unwrap_or("No").to_owned(),
            "IFMarker" | "OFMarker" => "No".to_owned(),
            "MaxConnections" | "MaxOutstandingR2T" => "1".to_owned(),
            "ErrorRecoveryLevel" | "DefaultTime2Retain" => "0".to_owned(),
            "DefaultTime2Wait" | "MaxBurstLength" | "FirstBurstLength" => {
                let most = if key == "DefaultTime2Wait" {
                    3600
                } else {
                    1 << 20
                };
                said.number(key).unwrap_or(most).min(most).to_string()
            }
            "MaxRecvDataSegmentLength" => LONGEST_DATA.to_string(),
            "InitiatorName" | "InitiatorAlias" | "TargetName" | "SessionType" => continue,
            _ => "NotUnderstood".to_owned(),
        };
        texts.add(key, value);
    }
    if said.get("MaxRecvDataSegmentLength").is_none() {
        texts.add("MaxRecvDataSegmentLength", LONGEST_DATA.to_string());
    }
    texts.add("TargetPortalGroupTag", "1");
}
