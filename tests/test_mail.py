"""E-mail, handed to an SMTP server on this machine."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.guard import Refused
from alerts.mail import MailRefused, MailServer, Security, check_mailto, send_mail
from alerts.webhook import NoReply
from tests.support.certificates import Authority
from tests.support.smtp import LOGIN, PASSWORD, TRICKLE, Smtp, smtp

NOW = datetime(2026, 12, 1, 8, 30, tzinfo=UTC)


def known(server: Smtp, security: Security = "none", **more: Any) -> MailServer:
    given = {"user": None, "password": None, "sender": "gpufare <gpufare@sender.example>"} | more
    return MailServer("127.0.0.1", server.server_address[1], security, **given)


def send(
    server: MailServer, subject: str = "V100 is back", text: str = "In Nanjing.\n", to: str = "a@b.example"
) -> None:
    send_mail(server, to, subject, text, message_id="evt_1", now=NOW, timeout_s=30)


def why(server: MailServer, kind: type[Exception]) -> str:
    with pytest.raises(kind) as failed:
        send(server)
    assert PASSWORD not in repr(failed.value)
    assert LOGIN not in repr(failed.value)
    return str(failed.value)


def test_a_mail_is_handed_over_with_all_that_a_mailbox_wants_to_know() -> None:
    with smtp() as server:
        send(known(server), subject="V100 广州 有货", text="地域 ap-guangzhou\n.\n.dot\n")
        mail = server.mail
    assert dict(mail.items()) == {
        "From": "gpufare <gpufare@sender.example>",
        "To": "a@b.example",
        "Subject": "V100 广州 有货",
        "Date": "Tue, 01 Dec 2026 08:30:00 +0000",
        "Message-ID": "<evt_1@sender.example>",
        "Auto-Submitted": "auto-generated",
        "Content-Type": 'text/plain; charset="utf-8"',
        "Content-Transfer-Encoding": mail["Content-Transfer-Encoding"],
        "MIME-Version": "1.0",
    }
    assert mail.get_content().splitlines() == ["地域 ap-guangzhou", ".", ".dot"]
    assert server.mails[0].isascii()
    assert [command.split(">")[0] for command in server.commands if ":" in command] == [
        "mail FROM:<gpufare@sender.example",
        "rcpt TO:<a@b.example",
    ]


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_the_password_goes_over_tls_to_a_server_whose_certificate_is_good(
    security: Security, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    with smtp(authority.server("127.0.0.1"), at_once=security == "tls") as server:
        send(known(server, security, user="gpufare", password=PASSWORD))
        assert server.mail["Subject"] == "V100 is back"
    words = [command.split(" ")[0] for command in server.commands]
    assert words.index("AUTH") > words.index("STARTTLS") if security == "starttls" else "STARTTLS" not in words


@pytest.mark.parametrize("security", ["starttls", "tls"])
@pytest.mark.parametrize("trusted", [False, True])
def test_a_server_with_another_certificate_is_told_nothing(
    security: Security, trusted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    with smtp(authority.server("other.example"), at_once=security == "tls") as server:
        said = why(known(server, security, user="gpufare", password=PASSWORD), NoReply)
    assert said.startswith("127.0.0.1: its certificate is not valid: ")
    assert not any(LOGIN in command for command in server.commands)
    assert not server.mails


def test_without_tls_where_it_is_wanted_nothing_is_sent() -> None:
    with smtp() as server:
        assert "offers no STARTTLS" in why(known(server, "starttls", user="gpufare", password=PASSWORD), MailRefused)
    assert not any(command.startswith(("AUTH", "mail")) for command in server.commands)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"RCPT": "450 4.2.0 greylisted, come back"}, "does not take mail for the recipient (450 4.2.0 greylisted"),
        ({"RCPT": "421 4.3.2 closing"}, "does not take mail for the recipient (421"),
        ({"MAIL": "452 4.3.1 no room"}, "does not take the mail (452 4.3.1 no room)"),
        ({"DATA": "451 4.3.0 later"}, "does not take the mail (451"),
        ({"taken": "451 4.3.0 later"}, "does not take the mail (451"),
        ({"connect": "421 too busy"}, "does not take the mail (421 too busy)"),
        ({"connect": "hello"}, "does not take the mail (-1"),
        ({"connect": ""}, "the connection ended before the mail was taken"),
        ({"DATA": ""}, "the connection ended before the mail was taken"),
        ({"taken": ""}, "the connection ended before the mail was taken"),
    ],
)
def test_what_may_pass_is_no_reply(answers: dict[str, str], said: str) -> None:
    with smtp(answers=answers) as server:
        assert said in why(known(server), NoReply)
    assert not server.mails


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"RCPT": "550 5.1.1 no such\tuser"}, "does not take mail for the recipient (550 5.1.1 no such user)"),
        ({"MAIL": "553 5.7.1 not you"}, "does not take the mail (553 5.7.1 not you)"),
        ({"taken": "554 5.6.0 spam"}, "does not take the mail (554 5.6.0 spam)"),
        ({"connect": "554 no mail here"}, "does not take the mail (554 no mail here)"),
    ],
)
def test_what_is_for_good_is_refused(answers: dict[str, str], said: str) -> None:
    with smtp(answers=answers) as server:
        assert said in why(known(server), MailRefused)
    assert not server.mails


@pytest.mark.parametrize(("code", "kind"), [(535, MailRefused), (454, NoReply)])
def test_a_server_that_repeats_the_password_is_not_quoted(
    code: int, kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    with smtp(authority.server("127.0.0.1"), answers={"AUTH": f"{code} you said {PASSWORD} {LOGIN}"}) as server:
        said = why(known(server, "starttls", user="gpufare", password=PASSWORD), kind)
    assert said == f"127.0.0.1 does not let its user in ({code})"
    assert PASSWORD not in repr(known(server, "starttls", user="gpufare", password=PASSWORD))


@pytest.mark.parametrize("word", ["connect", "EHLO", "RCPT", "taken"])
def test_all_of_an_attempt_has_one_limit_of_time(word: str) -> None:
    with smtp(answers={word: TRICKLE}) as server:
        with pytest.raises(NoReply, match="the connection ended before the mail was taken"):
            send_mail(known(server), "a@b.example", "s", "t", message_id="evt_1", now=NOW, timeout_s=0.2)
        assert not server.mails


def test_an_answer_that_repeats_the_recipient_is_quoted_without_it() -> None:
    with smtp(answers={"RCPT": "550 5.1.1 <A@b.example>: user a@b.example unknown"}) as server:
        said = why(known(server), MailRefused)
    assert said.endswith("(550 5.1.1 <***>: user *** unknown)")


def test_nobody_there_is_no_reply() -> None:
    with smtp() as server:
        pass
    assert why(known(server), NoReply) == "127.0.0.1: no connection"


@pytest.mark.parametrize("answer", ["", "421 bye", "500 what"])
def test_a_mail_that_was_taken_is_taken_however_the_server_says_goodbye(answer: str) -> None:
    with smtp(answers={"QUIT": answer}) as server:
        send(known(server))
    assert server.mail["Subject"] == "V100 is back"


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r", "\x00", "\x0b", "\x0c", "\x85", "\u2028"])
def test_no_text_makes_a_header_or_a_command(end: str) -> None:
    evil = f"back{end}Bcc: evil@c.example{end}{end}.{end}MAIL FROM:<evil@c.example>"
    with smtp() as server:
        send(known(server), subject=evil, text=evil)
        with pytest.raises(MailRefused):
            send(known(server), to=f"a@b.example{end}RCPT TO:<evil@c.example>")
        mail = server.mail
    assert mail["Bcc"] is None
    assert mail["Subject"] == "back Bcc: evil@c.example . MAIL FROM:<evil@c.example>"
    assert [command.split(" ")[0].upper() for command in server.commands] == ["EHLO", "MAIL", "RCPT", "DATA", "QUIT"]


def test_text_that_is_no_text_is_sent_all_the_same() -> None:
    with smtp() as server:
        send(known(server), subject="\ud800", text="\ud800")
    assert server.mail.get_content().strip() == "?"


@pytest.mark.parametrize(
    "more",
    [
        {"sender": "gpufare"},
        {"sender": "gpufare@sender.example\r\nBcc: evil@c.example"},
        {"sender": ""},
        {"user": "gpufare", "password": PASSWORD},
        {"security": "tls", "user": "gpufare"},
        {"security": "tls", "password": PASSWORD},
        {"security": "tls", "user": "gpufare", "password": "密码"},
    ],
)
def test_a_server_that_cannot_be_used_as_it_is_given_is_refused(more: dict[str, Any]) -> None:
    given = {"security": "none", "user": None, "password": None, "sender": "gpufare@sender.example"} | more
    with pytest.raises(ValueError, match=r"sender|password") as refused:
        MailServer("mail.example", 25, **given)
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["mailto:ops@example.com", "MAILTO:ops%40example.com", "mailto:o.p+s=a%26b@x-y.example"]
)
def test_one_address_is_taken(url: str) -> None:
    assert check_mailto(url) == url.partition(":")[2].replace("%40", "@").replace("%26", "&")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ops@example.com",
        "https://example.com",
        "mailto:",
        "mailto:ops",
        "mailto:@example.com",
        "mailto:ops@",
        "mailto://ops@example.com",
        "mailto:a@example.com,b@example.com",
        "mailto:a@example.com%2Cb@example.com",
        "mailto:a@example.com;b@example.com",
        "mailto:a@example.com b@example.com",
        "mailto:a@b@example.com",
        "mailto:ops@example.com?subject=x",
        "mailto:ops@example.com?",
        "mailto:ops@example.com%3Fbcc=b@example.com",
        "mailto:ops@example.com?bcc=b@example.com",
        "mailto:ops@example.com#x",
        "mailto:ops@example.com%0d%0aBcc:b@example.com",
        "mailto:ops@example.com%0a",
        "mailto:ops%00@example.com",
        "mailto:ops@example.com\n",
        "mailto: ops@example.com",
        "mailto:Ops <ops@example.com>",
        'mailto:"o ps"@example.com',
        "mailto:ops@[127.0.0.1]",
        "mailto:ops@-example.com",
        "mailto:ops@example..com",
        "mailto:.ops@example.com",
        "mailto:=?utf-8?q?x?=@example.com",
        "mailto:运维@example.com",
        "mailto:ops@例子.测试",
        f"mailto:{'a' * 65}@example.com",
        f"mailto:a@{'a.' * 130}com",
    ],
)
def test_anything_but_one_address_is_refused(url: str) -> None:
    with pytest.raises(Refused, match=r"mailto:.*\.$"):
        check_mailto(url)


@given(st.text())
def test_whatever_is_taken_is_one_address(text: str) -> None:
    try:
        address = check_mailto(f"mailto:{text}")
    except Refused:
        return
    assert address.count("@") == 1
    assert address.isascii()
    assert address.isprintable()
    assert " " not in address
