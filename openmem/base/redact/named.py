"""Our rules for secrets that only the words beside them give away.

They read text in which `\\"` and `\\n` of a string inside a string already stand for what they mean
(`scan.unescaped`), so that a name, its quotes and its value look alike in a file and in a tool's
result that holds the file as JSON.
Each repeat is bounded.
"""

from __future__ import annotations

from openmem.base.redact.own import OwnRule
from openmem.base.redact.refusals import (
    is_masked,
    is_no_assigned,
    is_no_header,
    is_no_plain_password,
    is_no_said_password,
    is_no_setting,
    is_no_url_password,
    is_no_value,
    is_placeholder,
)

_NAME = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|secret|token|api[_-]?key|apikey|access[_-]?key"
    r"|auth[_-]?key|app(?:lication)?[_-]?key|private[_-]?key|signing[_-]?key|encryption[_-]?key"
    r"|master[_-]?key|account[_-]?key|credentials?|storepass|keypass|(?:[_.-]|\b)pass)"
)
_ASSIGN_WORDS = (
    "passw", "passphrase", "passcode", "pwd", "_pass", "-pass", ".pass", "pass=", "pass:",
    "pass\"", "secret", "token", "api_key", "api-key", "apikey", "access_key", "access-key",
    "accesskey", "auth_key", "private_key", "signing_key", "encryption_key", "credential",
    "authkey", "privatekey", "app_key", "appkey", "application_key", "master_key", "account_key",
    "storepass", "keypass",
)  # fmt: skip
_ELEMENT_ENDS = (
    "password>", "passwd>", "passphrase>", "passcode>", "pwd>", "secret>", "token>", "apikey>",
    "api_key>", "api-key>", "accesskey>", "access_key>", "privatekey>", "private_key>",
    "credential>", "credentials>", "secretkey>", "secret_key>", "passwordvalue>", "</key>",
)  # fmt: skip
_PASSWORD_WORDS = ("passw", "passphrase", "passcode", "pwd", "pass=", "pass:", 'pass"', "pass'")
_PASSWORD = r"(?:passw(?:or)?d|passphrase|passcode|pwd|(?:[_.-]|\b)pass)[0-9]{0,2}"
_SEP = r"[\s\"'`\]]{0,8}(?::=|=>|=|:|,)\s{0,3}"
_QUOTED = r"""(?:"([^"\s]{8,400})\s{0,7}"|'([^'\s]{8,400})\s{0,7}'|`([^`\s]{8,400})\s{0,7}`)"""

NAMED_RULES: tuple[OwnRule, ...] = (
    OwnRule(
        name="url-password",
        keywords=("://",),
        group=1,
        refuse=is_no_url_password,
        pattern=r"(?i:\b[a-z][a-z0-9+.-]{1,20}://)[^\s:/@\"'<>]{0,128}:([^\s/\"'<>]{1,256})@",
    ),
    OwnRule(
        name="authorization",
        keywords=("authorization", "bearer ", "x-api-key", "api-key:"),
        group=1,
        refuse=is_no_header,
        pattern=r"(?i:(?:(?:proxy-)?authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?"
        r"(?:bearer|basic|token|apikey)?\s{0,3}|\bbearer\s{1,3}"
        r"|x-api-key[\"']?\s{0,3}[:=]\s{0,3}[\"']?|[a-z-]{0,20}api-key:\s{0,3}))"
        r"([A-Za-z0-9._~+/=-]{16,400})",
        reach=2200,
    ),
    OwnRule(
        name="cookie",
        keywords=("cookie:", 'cookie":'),
        reach=500,
        group=1,
        refuse=is_placeholder,
        entropy=2.8,
        pattern=r"(?i:(?:set-)?cookie[\"']?:\s{0,3}[\"']?(?:[\w.-]{1,64}=[^;\s]{0,64};\s{0,3}){0,20}"
        r"[\w.-]{0,32}(?:sess|sid|auth|token|jwt|csrf|login|remember)[\w.-]{0,32}=)"
        r"([^;\s\"',]{12,2000})",
    ),
    OwnRule(
        name="curl-user",
        keywords=("curl", "wget", "http "),
        reach=1200,
        group=1,
        refuse=is_masked,
        pattern=r"(?i:\b(?:curl|wget|https?)\b[^\n]{0,600}?\s(?:-u|--user|--proxy-user|-a|--auth)"
        r"(?:=|\s{1,3}|(?=[\"'\w])))[\"']?[^\s:\"']{1,100}:([^\s\"']{3,200})",
    ),
    OwnRule(
        name="password-option",
        keywords=(
            "-pass",
            "-token",
            "-secret",
            "-api-key",
            "-apikey",
            "-access-key",
            "-auth-key",
            "storepass",
            "keypass",
        ),
        group=1,
        refuse=is_no_plain_password,
        pattern=r"(?i:(?:^|[\s\"'`=(])--?(?:[a-z0-9]{1,20}-){0,3}(?:password|passwd|passphrase|pass"
        r"|token|secret|secret-key|api-?key|access-key|auth-key|[a-z]{0,4}storepass|keypass)"
        r"(?:=|[\"']?,?[ \t\n]))[\"']?([^\s\"'`,;<>(){}\[\]-][^\s\"'`;<>(){}\[\]]{5,200})",
    ),
    OwnRule(
        name="password-argument",
        keywords=(
            "sshpass",
            "mysql",
            "mariadb",
            "redis-cli",
            "docker login",
            "podman login",
            "htpasswd",
            "pass:",
            "chpasswd",
            "sudo -s",
            "ldapsearch",
            "mongo",
            "smbclient",
            "ssh-keygen",
            "7z ",
            "zip -",
            "unzip -",
        ),
        reach=600,
        group=0,
        refuse=is_masked,
        pattern=r"(?i:\bsshpass\s{1,3}-p\s{0,3}|\b(?:mysql(?:dump|admin)?|mariadb)\b[^\n]{0,200}?\s-p"
        r"|\bredis-cli\b[^\n]{0,200}?\s-a\s{1,3}|\b(?:docker|podman)\s+login\b[^\n]{0,200}?\s-p\s{0,3}"
        r"|\bmongo(?:sh|dump|restore|export)?\b[^\n]{0,200}?\s-p\s{1,3}"
        r"|\bldap[a-z]{2,8}\b[^\n]{0,200}?\s-w\s{0,3}|\bssh-keygen\b[^\n]{0,200}?\s-[NP]\s{1,3}"
        r"|\bhtpasswd\s+-[a-z]{0,6}b[a-z]{0,4}\s+\S{1,200}\s+\S{1,100}\s+|\b(?:7z\s+[axel]|zip|unzip)\b"
        r"[^\n]{0,120}?\s-P\s{0,3}|\s-pass(?:in|out)?\s{1,3}[\"']?pass:)"
        r"[\"']?([^\s\"'`,;<>(){}\[\]-][^\s\"'`;<>(){}\[\]]{4,200})"
        r"|(?i:\becho\s+(?:-n\s+)?[\"']?)([^\s\"'|$]{4,200})[\"']?\s{0,3}\|\s{0,3}"
        r"(?:sudo\s+-S|docker\s+login|podman\s+login|passwd\s+--stdin)"
        r"|(?i:\becho\s+(?:-e\s+)?[\"']?)[\w.-]{1,40}:([^\s\"'|$]{4,200})[\"']?\s{0,3}\|\s{0,3}"
        r"(?:sudo\s+)?chpasswd|(?i:\bsmbclient\b[^\n]{0,120}?\s-U\s{0,3}[\"']?[\w.\\-]{1,60}%)"
        r"([^\s\"']{4,200})",
    ),
    OwnRule(
        name="env-secret",
        keywords=_ASSIGN_WORDS,
        reach=500,
        group=1,
        refuse=is_no_setting,
        pattern=r"(?m:(?:^|[\s;&|\"'`(+-])(?:export\s{1,3}|set\s{1,3}|-e\s{0,2}|ENV\s{1,3})?"
        r"(?:[A-Z][A-Z0-9_]{0,60}?)?(?:PASSWORD|PASSWD|PASSPHRASE|PWD|PASS|SECRET|TOKEN|API_?KEY"
        r"|ACCESS_?KEY|PRIVATE_?KEY|SIGNING_?KEY|ENCRYPTION_?KEY|CREDENTIALS?)[A-Z0-9_]{0,20}"
        r"=[\"']?)([^\s\"'`;<>|(){}\[$][^\s\"'`;<>|]{5,400})",
    ),
    OwnRule(
        name="env-key",
        keywords=("_key=", '_key"', "_key'", "_key:", "_key =", "_key "),
        group=1,
        entropy=3.2,
        refuse=is_no_setting,
        pattern=r"(?:^|[^A-Za-z0-9_])[A-Z][A-Z0-9_]{1,40}_KEY[\s\"']{0,4}[:=]{1,2}[\s\"']{0,4}"
        r"([A-Za-z0-9+/=_.~-]{20,300})",
    ),
    OwnRule(
        name="one-time-seed",
        keywords=("otp", "mfa", "2fa", "authenticator"),
        group=1,
        entropy=3.0,
        pattern=r"(?i:(?:[th]?otp|mfa|2fa|authenticator)[\w /:@.%?&-]{0,80}?(?:seed|secret|key)?"
        r"[\s\"']{0,4}[:=]{1,2}>?[\s\"']{0,4})([A-Z2-7]{16,64}={0,6})(?:[^A-Za-z0-9]|$)",
    ),
    OwnRule(
        name="password",
        keywords=_ASSIGN_WORDS,
        reach=500,
        anchored=True,
        entropy=2.2,
        refuse=is_no_value,
        pattern=r"(?i:" + _NAME + r"[\w]{0,20}" + _SEP + r"(?:[a-z]{1,6}\s{0,2})?)" + _QUOTED,
    ),
    OwnRule(
        name="password",
        keywords=_ASSIGN_WORDS,
        reach=500,
        group=1,
        anchored=True,
        entropy=2.5,
        refuse=is_no_assigned,
        pattern=r"(?i:" + _NAME + r"[\w]{0,20}[\s\"'`\]]{0,8}(?::=|=>|=|:)\s{0,3}"
        r"(?:[a-z]{1,6}\s{0,2}[\"'])?[\"'`]?)"
        r"([^\s\"'`,;<>(){}\[\]$*][^\s\"'`,;<>(){}\[\]]{7,400})",
    ),
    OwnRule(
        name="password",
        keywords=_PASSWORD_WORDS,
        anchored=True,
        refuse=is_no_plain_password,
        # What follows tells an assignment from an argument: `f(password=value, ...)` goes on.
        pattern=r"(?i:(?:passw(?:or)?d|passphrase|passcode|pwd|(?<![a-z])pass)[0-9]{0,2}=)"
        r"([A-Za-z][A-Za-z0-9!?@#%^*+.~-]{6,250})(?=[\s;&\"'`]|$)",
    ),
    OwnRule(
        name="password",
        keywords=_PASSWORD_WORDS,
        refuse=is_no_plain_password,
        pattern=r"(?im:^[ \t+-]{0,40}(?:[0-9]{1,6}[\t:| ]{1,3})?[ \t]{0,40}"
        + r"[\"']?[\w.-]{0,60}?"
        + _PASSWORD
        + r"[\"']?[ \t]{0,4}:[ \t]{1,4})([A-Za-z][A-Za-z0-9!?@#%^*+.~-]{7,250})"
        + r"[ \t]{0,8}(?:#[^\n]{0,200})?(?:[\r\n]|$)",
    ),
    OwnRule(
        name="password",
        keywords=_ELEMENT_ENDS,
        reach=500,
        group=0,
        refuse=is_no_value,
        # An element of XML, and a pair of a property list.
        pattern=r"(?i:<[\w:.-]{0,40}?" + _NAME + r"[\w.-]{0,20}(?:\s[^<>]{0,120})?>\s{0,8})"
        r"([^<>\s]{6,400})(?=\s{0,8}</)"
        r"|(?i:<key>[^<>]{0,40}?" + _NAME + r"[\w.-]{0,20}</key>\s{0,20}<string>)([^<>\s]{6,400})",
    ),
    OwnRule(
        name="password",
        keywords=("value=",),
        reach=600,
        refuse=is_no_value,
        # An attribute that names it and one that holds it: settings of .NET, Spring, forms.
        pattern=r"(?i:\b(?:key|name|id)=[\"'][^\"'<>]{0,60}?" + _NAME + r"[\w.-]{0,20}[\"']"
        r"\s{1,20}value=)" + _QUOTED,
    ),
    OwnRule(
        name="said-password",
        keywords=("password", "passphrase", "passcode", "pass:", "pass is", "passwd", " pw"),
        refuse=is_no_plain_password,
        pattern=r"(?i:\b(?:password|passphrase|passcode|passwd|pass|pw)\b[^\S\n]{0,2}(?:\([^)\n]{0,30}\)"
        r"[^\S\n])?(?:(?:is|was|will\sbe|set\sto|to|=|:)[^\S\n]{1,2}(?:now[^\S\n]|still[^\S\n])?)?)"
        r"(?:`([^`\s]{6,200})`|'([^'\s]{6,200})'|\"([^\"\s]{6,200})\")",
    ),
    OwnRule(
        name="said-password",
        keywords=("password", "passphrase", "passcode", "pass:", "pass is", "passwd", " pw"),
        group=1,
        refuse=is_no_said_password,
        pattern=r"(?i:\b(?:password|passphrase|passcode|passwd|pass|pw)\b[^\S\n]{0,2}"
        r"(?:is|was|will\sbe|set\sto|to|=|:)[^\S\n]{1,2}(?:now[^\S\n]|still[^\S\n])?)"
        r"([^\s\"'`,;<>(){}\[\]$*][^\s\"'`,;<>(){}\[\]]{7,200})",
    ),
    OwnRule(
        name="login-pair",
        keywords=("pass", "credential", "creds"),
        group=0,
        refuse=is_no_plain_password,
        pattern=r"(?i:\b(?:user(?:name)?|login|email)\b[\"'`\s]{0,3}[:=][^\n]{1,80}?\bpass(?:word)?\b"
        r"[\"'`\s]{0,3}[:=]\s{0,2}[\"'`]?)([^\s\"'`,;<>(){}\[\]$/][^\s\"'`,;<>(){}\[\]]{5,200})"
        r"|(?i:\b(?:credentials?|creds)[\"'`]?\s{0,2}(?:are|is|:|=)\s{1,2}[\"'`]?[\w.@+-]{1,64}:)"
        r"([^\s\"'`,;<>(){}\[\]$/][^\s\"'`,;<>(){}\[\]]{5,200})",
    ),
    OwnRule(
        name="url-parameter",
        keywords=(
            "key=",
            "token=",
            "secret=",
            "signature=",
            "sig=",
            "password=",
            "passwd=",
            "pwd=",
            "pass=",
            "appid=",
            "code=",
            "hmac=",
            "jwt=",
        ),
        reach=500,
        group=1,
        entropy=2.8,
        refuse=is_no_header,
        pattern=r"(?i:[?&](?:[\w.-]{0,30}?(?:key|token|secret|signature|sig|passw(?:or)?d|pwd|pass"
        r"|appid|hmac|jwt)|code)=)([^&\s\"'`<>#()]{16,400})",
    ),
    OwnRule(
        name="pgpass",
        keywords=(":5432:", ":5433:", ":6432:", ":6543:", ":*:"),
        group=1,
        refuse=is_placeholder,
        pattern=r"(?m:(?:^|[\s\"'])[\w.*-]{1,100}:(?:5432|5433|6432|6543|\*):[\w*-]{1,60}:[\w*.-]{1,60}:)"
        r"([^\s\"':]{4,200})(?:[\s\"']|$)",
    ),
    OwnRule(
        name="netrc",
        keywords=("machine ",),
        group=1,
        refuse=is_placeholder,
        pattern=r"\bmachine\s{1,4}\S{1,120}\s{1,8}login\s{1,4}\S{1,120}\s{1,8}password\s{1,4}(\S{3,200})",
    ),
)
