"""`redact` with rules of others: what they find, however a text is split, and what they cannot do."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import re2  # type: ignore[import-untyped]  # it has no stubs
from hypothesis import given
from hypothesis import strategies as st
from support.hooks.settings import SESSION, asking
from support.places import EXAMPLES, SHARED
from support.texts.matches import match_of
from support.texts.secrets import PLANTED, cut, fragments, planted, redacted

from hookgate.hooks import Engine, load_settings
from hookgate.hooks.policies.options import read_options
from hookgate.hooks.policies.redact import DETECTORS, ReplacedFragment, Scanner, shared_scanner
from hookgate.hooks.policies.redact.detectors.credentials import CREDENTIALS
from hookgate.hooks.policies.redact.detectors.randomness import bits_per_character
from hookgate.hooks.policies.redact.options import RedactOptions
from hookgate.hooks.policies.redact.rules import read_rules
from hookgate.hooks.policies.redact.rules.rule import kind_of
from hookgate.hooks.policies.redact.rules.syntax import PatternError, rewrite_pattern

Json = dict[str, Any]
GITLEAKS = SHARED / "corpora" / "gitleaks.toml"
VALUE = "q7Kz3Jw9Xb2Ln5Rt8Vd1"
NEAR = (
    r"""(?i)[\w.-]{0,50}?(?:acme)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|:)[\x60'"\s=]{0,5}"""
    r"""([a-z0-9]{20})(?:[\x60'"\s;]|\\[nr]|$)"""
)


def scanner_of(*rules: Json) -> Scanner:
    return shared_scanner(
        read_options(RedactOptions, {"detect": ["rules"], "rules": list(rules)}).detectors()
    )


def found(scanner: Scanner, text: str) -> list[str]:
    return [each.original for each in fragments(scanner, [text]) if isinstance(each, ReplacedFragment)]


def rule(regex: str, **more: Any) -> Json:
    return {"id": "acme-token", "regex": regex, **more}


def file_of(folder: Path, text: str) -> Any:
    (folder / "rules.toml").write_text(text)
    return read_rules(["rules.toml"], folder)[0]


RULES = {
    "key": (r"\b(acme_[a-z0-9]{20})\b", "acme_" + VALUE.lower(), "[ACME_TOKEN]"),
    "near word": (NEAR, f"my_ACME_key: '{VALUE}'", "my_ACME_key: '[ACME_TOKEN]'"),
    "unlimited": (r"acme_[A-Za-z0-9]{8,}={0,2}", f"acme_{VALUE * 20}==", "[ACME_TOKEN]"),
    "in the middle": (r"[a-z0-9]{6}~acme~[A-Za-z0-9]{20}", f"ab12cd~acme~{VALUE}", "[ACME_TOKEN]"),
    "two groups": (r"acme:(?:a=(\w{20})|b=(\w{20}));", f"acme:b={VALUE};", "acme:b=[ACME_TOKEN];"),
    "lines": (
        r"acme \{\n(?:  .*\n)*  secret (\w+)\n",
        f"acme {{\n  a b\n  secret {VALUE}\n",
        "acme {\n  a b\n  secret [ACME_TOKEN]\n",
    ),
    "end": (r"acme (\w{20})\z", f"acme {VALUE}", "acme [ACME_TOKEN]"),
}


@pytest.mark.parametrize("name", RULES)
def test_every_split_of_a_match_gives_the_same(name: str) -> None:
    regex, match, expected = RULES[name]
    after = "" if name == "end" else " and more"
    text, out = f"so — {match}{after}", f"so — {expected}{after}"
    scanner = scanner_of(rule(regex))
    for at in range(len(text) + 1):
        assert redacted(scanner, text[:at], text[at:]) == out
    assert redacted(scanner, *text) == out


def test_many_rules_with_long_matches_give_the_same_for_every_split() -> None:
    names = [f"{first}{second}{second}" for first in "abcde" for second in "vwxyz"]
    rules = [{"id": name, "regex": rf"\b{name}[_-]?key:[a-z0-9]{{8,}};"} for name in names]
    scanner = scanner_of(*rules)
    for name in names:
        text = f"so {name}_key {name}-key:{'a1b2' * 3}; {name}key:short;"
        whole = redacted(scanner, text)
        assert whole == f"so {name}_key [{name.upper()}] {name}key:short;"
        assert [at for at in range(1, len(text)) if redacted(scanner, text[:at], text[at:]) != whole] == []


@pytest.mark.parametrize("name", RULES)
def test_a_rule_finds_the_same_beside_all_other_detectors(name: str) -> None:
    regex, match, _ = RULES[name]
    options = read_options(RedactOptions, {"rules": [rule(regex)]})
    scanner = shared_scanner(options.detectors())
    text = f"so — {match}" if name == "end" else f"so — {match} and more"
    out = redacted(scanner, text)
    assert VALUE not in out
    assert "[" in out
    for at in range(len(text)):
        assert redacted(scanner, text[:at], text[at:]) == out


def test_a_secret_begins_after_an_escape_as_at_a_word() -> None:
    scanner = scanner_of(rule(r"\bacme_[a-z0-9]{20}\b"))
    secret = "acme_" + VALUE.lower()
    for before in ("\\n", "%20", "\\u0022", "\x1b[31m", " "):
        assert redacted(scanner, f"x{before}{secret} ok") == f"x{before}[ACME_TOKEN] ok"
    assert redacted(scanner, f"x{secret}") == f"x{secret}"


def test_the_entropy_of_a_secret_has_to_be_higher() -> None:
    text = "acme=abababababababababab;"
    assert found(scanner_of(rule(r"acme=(\w+);", entropy=0.9)), text) == ["abababababababababab"]
    assert found(scanner_of(rule(r"acme=(\w+);", entropy=1)), text) == []


def test_a_keyword_stands_in_the_match_or_shortly_before_it() -> None:
    scanner = scanner_of(rule(r"\b[0-9a-f]{40}\b", keywords=["acme"]))
    value = "3b5f1a9c0d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a"
    assert found(scanner, f"ACME key\n{value}") == [value]
    assert found(scanner, f"commit {value} acme") == []
    assert found(scanner, f"acme {'x ' * 200}{value}") == []
    text = f"Acme{' ' * 200}{value}."
    for at in range(0, len(text), 7):
        assert redacted(scanner, text[:at], text[at:]) == f"Acme{' ' * 200}[ACME_TOKEN]."


def test_a_group_can_be_named_as_the_secret() -> None:
    scanner = scanner_of(rule(r"(acme)-(\w{20})", secretGroup=2))
    assert redacted(scanner, f"acme-{VALUE} ok") == "acme-[ACME_TOKEN] ok"


@pytest.mark.parametrize(
    ("allowlist", "text", "is_allowed"),
    [
        ({"regexes": ["^q7"]}, f"acme={VALUE};", True),
        ({"regexes": ["^7"]}, f"acme={VALUE};", False),
        ({"stopwords": ["KZ3J"]}, f"acme={VALUE};", True),
        ({"regexTarget": "match", "regexes": ["acme="]}, f"acme={VALUE};", True),
        ({"regexTarget": "line", "regexes": ["^# "]}, f"x\n# acme={VALUE};", True),
        ({"regexTarget": "line", "regexes": ["^# "]}, f"# x\nacme={VALUE};", False),
        ({"condition": "AND", "regexes": ["^q7"], "stopwords": ["nothing"]}, f"acme={VALUE};", False),
        ({"condition": "AND", "regexes": ["^q7"], "stopwords": ["kz3j"]}, f"acme={VALUE};", True),
        ({"condition": "AND", "paths": ["x"], "regexes": ["^q7"]}, f"acme={VALUE};", False),
        ({"paths": [".*"], "regexes": ["nothing"]}, f"acme={VALUE};", False),
    ],
)
def test_an_allowlist_says_what_is_no_secret(allowlist: Json, text: str, is_allowed: bool) -> None:
    scanner = scanner_of(rule(r"acme=(\w{20});", allowlists=[allowlist]))
    assert (found(scanner, text) == []) is is_allowed


def test_the_allowlist_of_a_match_sees_the_optional_text_before_it() -> None:
    allowlists = [{"regexTarget": "match", "regexes": ["public_acme"]}]
    scanner = scanner_of(rule(NEAR, allowlists=allowlists))
    assert found(scanner, f"my_public_acme = {VALUE} ") == []
    assert found(scanner, f"my_private_acme = {VALUE} ") == [VALUE]


def test_allowlists_of_a_file_apply_to_its_rules_only(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        "[allowlist]\nregexes = ['.*']\n[[rules]]\nid = 'a'\nregex = 'aaa_\\w{20}'\n"
    )
    (tmp_path / "b.toml").write_text("[[rules]]\nid = 'b'\nregex = 'bbb_\\w{20}'\n")
    options = read_options(RedactOptions, {"rules": ["a.toml", "b.toml"]}, tmp_path)
    scanner = shared_scanner(options.detectors())
    key = "AKIA" + "Q3EGRYH7XJ4WPL2D"
    assert found(scanner, f"aaa_{VALUE} bbb_{VALUE} {key}") == [f"bbb_{VALUE}", key]


def test_a_general_allowlist_can_be_for_some_rules(tmp_path: Path) -> None:
    rules = "".join(f"[[rules]]\nid = '{name}'\nregex = '{name}_\\w{{20}}'\n" for name in ("aaa", "bbb"))
    shared = "[[allowlists]]\ntargetRules = ['aaa']\nregexes = ['.*']\n"
    (tmp_path / "a.toml").write_text(shared + rules)
    options = read_options(RedactOptions, {"detect": ["rules"], "rules": ["a.toml"]}, tmp_path)
    assert found(shared_scanner(options.detectors()), f"aaa_{VALUE} bbb_{VALUE}") == [f"bbb_{VALUE}"]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("path = '\\.p12$'", "has no regex: it selects files by their names"),
        ("regex = '(?=a)bcd'", "RE2 has no lookarounds"),
        ("regex = 'abc\\pL+'", r"\pL is not supported in streams"),
        ("regex = 'a*'", "can match the empty string"),
        ("regex = 'abc(d)'\nsecretGroup = 2", "secretGroup is 2, but its regex has 1 groups"),
        ("regex = 'abc'\nentropy = 'high'", "entropy"),
        ("regex = 'abc'\nfilter = 'x'", "it has a filter that is not supported"),
        ("regex = 'abc'\n[[rules.required]]\nid = 'other'", "it needs findings of other rules"),
        ("regex = 'abc'\nskipReport = true", "only other rules use it"),
        ("regex = 'abc(?:(?:(?:x{100}){100}){100})'", "regex"),
        (f"regex = '{'a{1,1000}' * 100}'", "too large"),
        (f"regex = '{'(' * 300}abc{')' * 300}'", "nests too deeply"),
        ("regex = 'abc'\n[[rules.allowlists]]\nregexes = ['(']", "allowlists.0.regexes.0"),
    ],
)
def test_a_rule_that_cannot_be_used_is_named_with_the_reason_and_others_work(
    tmp_path: Path, lines: str, reason: str
) -> None:
    other = "[[rules]]\nid = 'good'\nregex = 'good_\\w{20}'\n"
    rules = file_of(tmp_path, f"{other}[[rules]]\nid = 'bad'\n{lines}\n")
    assert [each.table.id for each in rules.rules] == ["good"]
    [unusable] = rules.unusable
    assert (unusable.source, unusable.id) == ("rules.toml", "bad")
    assert reason in unusable.reason


FILTER = """
entropy(finding["secret"]) < 3.0
|| filter.matchesAny(finding["match"], [`^x1`, "\\\\.sample$"]) || containsAny(finding["secret"], ["a.c"])
"""


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("x2-abcdefgh;", True),
        ("x2-abababab;", False),
        ("x1-abcdefgh;", False),
        ("x2-abc.defgh;", True),
        ("x2-abcd.sample", False),
        ("x2-a.cdefgh;", False),
        ("x2-A.Cdefgh;", True),
    ],
)
def test_filters_of_betterleaks_are_read_as_entropy_and_allowlists(
    tmp_path: Path, text: str, is_found: bool
) -> None:
    rules = file_of(
        tmp_path, f"[[rules]]\nid = 'a'\nregex = 'x[12]-([A-Za-z.]{{6,}})'\nfilter = '''{FILTER}'''\n"
    )
    assert rules.unusable == ()
    assert bool(found(shared_scanner([rules.rules[0].detector()]), text)) is is_found


def test_files_to_extend_are_said_not_to_be_read(tmp_path: Path) -> None:
    rules = file_of(tmp_path, "[extend]\nuseDefault = true\n[[rules]]\nid = 'a'\nregex = 'abc'\n")
    [unusable] = rules.unusable
    assert unusable.id == "[extend]"
    assert 'name them in "rules"' in unusable.reason


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["no.toml"], "no.toml: cannot be read: No such file"),
        (["bad.toml"], "bad.toml: is not valid TOML"),
        (["empty.toml"], r"empty.toml: has no \[\[rules\]\]"),
        (["large.toml"], "large.toml: is larger than"),
        (["deep.toml"], "deep.toml: is not valid TOML: it nests too deeply"),
        (["keys.toml"], "keys.toml: is not valid TOML: a key has more than 16 parts"),
        ([{"id": "a", "regx": "abc"}], "the rule 'a': regx: is not known here; did you mean regex"),
        ([{"id": "a", "regex": "("}], "the rule 'a': regex: is not a valid RE2 pattern"),
        ([5], "must be a list of files and rules"),
    ],
)
def test_what_cannot_be_read_is_a_mistake_of_the_settings(tmp_path: Path, entries: Any, message: str) -> None:
    texts = {
        "bad": "a = ",
        "empty": "title = 'x'",
        "large": "#" * 1_100_000,
        "deep": f"a = {'[' * 10_000}",
        "keys": f"{'a.' * 100_000}a = 1",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.toml").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_options(RedactOptions, {"rules": entries}, tmp_path)


def test_rules_beyond_the_bounds_are_named(tmp_path: Path) -> None:
    alike = "".join(f"[[rules]]\nid = 'a{n}'\nregex = 'abc{n}_\\w{{20}}'\n" for n in range(40))
    general = "".join(f"[[rules]]\nid = 'g{n}'\nregex = '\\w{{9}}~{n}'\n" for n in range(12))
    rules = file_of(tmp_path, alike + general)
    assert len(rules.rules) == 32 + 8
    reasons = {each.reason.partition(" rules ")[0] for each in rules.unusable}
    assert reasons == {"more than 32", "more than 8"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("acme-token", "ACME_TOKEN"),
        ("1password-key", "RULE_1PASSWORD_KEY"),
        ("gitlab-runner-authentication-token-routable", "GITLAB_RUNNER_AUTHENTICA"),
        ("ö", "RULE"),
        ("a", "RULE_A"),
    ],
)
def test_a_kind_is_the_name_of_its_rule(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_actions_and_skip_know_the_kinds_of_rules() -> None:
    options: Json = {"rules": [rule("acme_[a-z]{9}")], "actions": {"ACME_*": "hash", "rules": "block"}}
    assert read_options(RedactOptions, options).actions_by_kind().get("ACME_TOKEN") == "hash"
    skipped = read_options(RedactOptions, {"rules": [rule("acme_[a-z]{9}")], "skip": ["ACME_TOKEN"]})
    assert "ACME_TOKEN" not in {each.kind for each in skipped.detectors()}


NIBBLING = [
    {"id": "any-word", "regex": r"(?i)key(?:\w{0,9})[\s=:'\"]{1,3}(\w{3})"},
    {"id": "signs", "regex": r"[\w-]{2}(.)-"},
    {"id": "dashes", "regex": r".-----BEGIN"},
    {"id": "akia", "regex": r"AKIA\w{3}"},
    {"id": "colon", "regex": r"://[a-z]+:\w"},
    {"id": "e", "regex": r"eyJ\w{5}"},
]
NIBBLED = shared_scanner(read_options(RedactOptions, {"rules": NIBBLING}).detectors())
ALONE = shared_scanner(CREDENTIALS)
CREDENTIAL_LABELS = [label for label in PLANTED if label.split()[0] in {each.kind for each in CREDENTIALS}]


def spans(scanner: Scanner, text: str) -> list[tuple[int, int, str]]:
    """The begin, the end and the kind of everything that is replaced."""
    at, replaced = 0, []
    for fragment in fragments(scanner, [text]):
        if isinstance(fragment, ReplacedFragment):
            replaced.append((at, at + len(fragment.original), fragment.kind))
        at += len(fragment.original)
    return replaced


@given(st.lists(st.tuples(st.integers(0, 99), st.sampled_from(CREDENTIAL_LABELS)), min_size=1, max_size=3))
def test_no_rule_hides_what_the_other_detectors_find(parts: list[tuple[int, str]]) -> None:
    text = " key=".join(planted(seed, label)[0] for seed, label in parts)
    with_rules = spans(NIBBLED, text)
    for begin, end, kind in spans(ALONE, text):
        assert any(b <= begin and end <= e and k == kind for b, e, k in with_rules), (text, begin, end)


@given(st.integers(0, 999), st.sampled_from(CREDENTIAL_LABELS), st.integers(0, 999))
def test_rules_that_give_way_do_so_however_a_text_is_split(seed: int, label: str, cuts: int) -> None:
    text = f"key={planted(seed, label)[0]} key: abc"
    out = redacted(NIBBLED, text)
    rnd = random.Random(cuts)  # noqa: S311  # it splits texts
    assert redacted(NIBBLED, *cut(rnd, text, 9)) == out


GO_PATTERNS = st.recursive(
    st.sampled_from(
        [
            "a",
            "B",
            "k",
            "S",
            "1",
            "-",
            ".",
            r"\.",
            r"\d",
            r"\w",
            r"\s",
            "[a-z]",
            "[^b-y]",
            "[[:alpha:]_]",
            "[K-m9]",
            r"[\w-]",
            r"\x41",
            r"\x{42}",
            r"\Qa.b\E",
            r"\b",
            "^",
            "$",
            r"\z",
            "(?i)",
            "(?-i)",
            "(?s)",
        ]
    ),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.tuples(inner, inner).map("|".join),
        inner.map(lambda each: f"({each})"),
        inner.map(lambda each: f"(?i:{each})"),
        st.tuples(inner, st.sampled_from(["*", "+?", "{0,3}", "{2}", "?"])).map(
            lambda each: f"(?:{each[0]}){each[1]}"
        ),
    ),
    max_leaves=12,
)


@given(GO_PATTERNS, st.text("aAbBkKsSyYzZ019-._ \n", max_size=12))
def test_a_rewritten_pattern_matches_where_the_original_does(pattern: str, text: str) -> None:
    quiet = re2.Options()
    quiet.log_errors = False
    rewritten = rewrite_pattern(pattern)
    new = re2.compile(rewritten.pattern, quiet).search(text)
    old = re2.compile(pattern, quiet).search(text)
    assert (new is None) is (old is None)
    if old and not rewritten.lead:
        assert new.span() == old.span()
        assert new.groups() == old.groups()


@given(st.text(st.sampled_from("abz019()[]{}*+?|^$.\\-:,<>P=!iQEpxdwsbB'\" \n"), max_size=40))
def test_no_pattern_crashes_the_reader(pattern: str) -> None:
    try:
        rewrite_pattern(pattern)
        scanner = scanner_of(rule(pattern))
    except (PatternError, ValueError):
        return
    text = f"so {pattern} {VALUE}"
    out = redacted(scanner, text)
    assert redacted(scanner, text[:7], text[7:]) == out


TOML_VALUES = st.one_of(
    st.sampled_from(["abc_\\w{20}", "(", "[a-z]{2,}", "secret", "AND", ""]),
    st.integers(-2, 3),
    st.floats(),
    st.booleans(),
)
TOML_KEYS = st.sampled_from(
    [
        "id",
        "regex",
        "ID",
        "entropy",
        "keywords",
        "secretGroup",
        "path",
        "allowlist",
        "allowlists",
        "regexes",
        "paths",
        "stopwords",
        "condition",
        "regexTarget",
        "rules",
        "extend",
        "title",
    ]
)
TABLES = st.recursive(
    TOML_VALUES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TOML_KEYS, inner, max_size=5)),
    max_leaves=20,
)


def as_toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {as_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    return repr(value).lower() if isinstance(value, bool | float) else json.dumps(value)


@given(
    st.lists(st.dictionaries(TOML_KEYS, TABLES, max_size=6), max_size=3),
    st.dictionaries(TOML_KEYS, TABLES, max_size=3),
)
def test_no_file_crashes_the_reader(
    tmp_path_factory: pytest.TempPathFactory, rules: list[Json], more: Json
) -> None:
    document = {**more, "rules": rules}
    text = "\n".join(f"{key} = {as_toml(value)}" for key, value in document.items())
    folder = tmp_path_factory.mktemp("rules")
    read = file_of(folder, text)
    assert len(read.rules) + len(read.unusable) >= len(rules)


@given(st.text(max_size=200))
def test_no_text_crashes_the_reader(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    (folder := tmp_path_factory.mktemp("text")).joinpath("x.toml").write_text(text, errors="replace")
    with pytest.raises(ValueError, match=r"^x\.toml: "):
        read_rules(["x.toml"], folder)


@pytest.mark.usefixtures("shared")
def test_each_rule_of_gitleaks_works_or_is_named() -> None:
    [rules] = read_rules([str(GITLEAKS)], Path("/"))
    assert [(each.id, each.reason) for each in rules.unusable] == [
        ("pkcs12-file", "has no regex: it selects files by their names")
    ]
    assert len(rules.rules) == 221
    assert [each.table.id for each in rules.rules if each.detector() is None] == [
        "freemius-secret-key",
        "hashicorp-tf-password",
        "kubernetes-secret-yaml",
        "nuget-config-password",
    ]


PATHS = (None, "a.php", "a.tf", "a.yaml", "nuget.config")


@pytest.mark.slow
@pytest.mark.usefixtures("shared")
def test_each_rule_of_gitleaks_finds_what_its_pattern_and_checks_say() -> None:
    """They are read anew here: the pattern as it is written, entropy and allowlists."""
    [rules] = read_rules([str(GITLEAKS)], Path("/"))
    rnd = random.Random(3)  # noqa: S311  # it makes texts
    for each in rules.rules:
        alone = Scanner([next(detector for path in PATHS if (detector := each.detector(path)))])
        for _ in range(4):
            match = match_of(rnd, rewrite_pattern(each.table.regex).pattern)
            words = [word for word in each.table.keywords if word.lower() not in match.lower()]
            text = f"so {' '.join(words[:1])} {match} ok. and more"
            expected = [secret for secret, *_ in gitleaks_findings(each, text)]
            assert found(alone, text) == expected, (each.table.id, text)
            at = rnd.randrange(len(text))
            assert redacted(alone, text[:at], text[at:]) == redacted(alone, text)


def gitleaks_findings(each: Any, text: str) -> list[tuple[str]]:
    findings = []
    for match in re2.compile(each.table.regex).finditer(text):
        groups = [group for group in match.groups() if group]
        group = each.table.secret_group
        secret = match[group] if group else groups[0] if groups else match[0]
        begin = text.rfind("\n", 0, match.start()) + 1
        targets = {"match": match[0], "line": text[begin : match.end()], "secret": secret}
        allowed = any(
            any(re2.search(pattern, targets[allowlist.regex_target]) for pattern in allowlist.regexes)
            or any(word.lower() in secret.lower() for word in allowlist.stopwords)
            for allowlist in each.allowlists
            if allowlist.condition == "OR"
        )
        if not allowed and not (each.table.entropy and bits_per_character(secret) <= each.table.entropy):
            findings.append((secret,))
    return findings


@pytest.mark.slow
@pytest.mark.usefixtures("shared")
def test_the_rules_of_gitleaks_beside_all_detectors_give_the_same_for_every_split() -> None:
    [rules] = read_rules([str(GITLEAKS)], Path("/"))
    detectors = (each.detector() for each in rules.rules)
    scanner = shared_scanner([*DETECTORS, *filter(None, detectors)])
    rnd = random.Random(4)  # noqa: S311  # it makes texts
    for each in rules.rules:
        text = f"the key: {match_of(rnd, rewrite_pattern(each.table.regex).pattern)} ok. and more"
        out = redacted(scanner, text)
        assert redacted(scanner, *cut(rnd, text, 5)) == out, each.table.id


async def test_the_example_works() -> None:
    engine = Engine(load_settings([EXAMPLES / "rules" / "settings.json"]))
    token = "acme_q7kz3jw9xb2ln5rt8vd1m4pc"  # noqa: S105  # made up
    text = f"{token}, acme_example0123456789abcdefg, TCK-123456, ACME_PASSWORD: correcthorsebattery;"
    shown = str(await engine.fire(asking(text), SESSION))
    await engine.close()
    assert "[ACME_TOKEN], acme_example0123456789abcdefg, [TICKET], ACME_PASSWORD: [ACME_PASSWORD];" in shown
