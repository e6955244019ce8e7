"""Judge measurements against the values that had to be reached, and certify the result. Pure."""

from stampworks.qualification.asking import Ask, Evidence
from stampworks.qualification.audit import Judgement, audit
from stampworks.qualification.campaign import campaign
from stampworks.qualification.certificate import (
    VERSION,
    Certificate,
    CertificateError,
    Checked,
    CheckFinding,
    Measured,
    NodeVerdict,
    RailVerdict,
    Verdict,
    finding_without_number,
    new_key,
    public_key,
    signed,
    verify,
    worst,
)
from stampworks.qualification.judgement import open_questions, overall, rail_verdicts, shortfall
from stampworks.qualification.results import Heard, Result, read
from stampworks.qualification.subject import Subject, proven_digest, subject_of
from stampworks.qualification.thresholds import NoThreshold, Threshold, ThresholdsError, read_thresholds

__all__ = [
    "VERSION",
    "Ask",
    "Certificate",
    "CertificateError",
    "CheckFinding",
    "Checked",
    "Evidence",
    "Heard",
    "Judgement",
    "Measured",
    "NoThreshold",
    "NodeVerdict",
    "RailVerdict",
    "Result",
    "Subject",
    "Threshold",
    "ThresholdsError",
    "Verdict",
    "audit",
    "campaign",
    "finding_without_number",
    "new_key",
    "open_questions",
    "overall",
    "proven_digest",
    "public_key",
    "rail_verdicts",
    "read",
    "read_thresholds",
    "shortfall",
    "signed",
    "subject_of",
    "verify",
    "worst",
]
