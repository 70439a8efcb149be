"""Addresses that anybody who knows them can send to: webhooks."""

from hookgate.hooks.policies.redact.detectors.issued.row import key

_SLASH = r"(?:\\{0,7}/|%2[Ff]|\\{1,7}u002[fF])"
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"

WEBHOOKS = (
    key(
        "SLACK_WEBHOOK",
        "Slack",
        rf"hooks\.slack\.com{_SLASH}services{_SLASH}"
        rf"(T[A-Z0-9]{{7,14}}{_SLASH}B[A-Z0-9]{{7,14}}{_SLASH}[A-Za-z0-9]{{20,}})",
    ),
    key(
        "SLACK_WEBHOOK",
        "Slack: workflows",
        rf"hooks\.slack\.com{_SLASH}(?:workflows|triggers){_SLASH}([A-Za-z0-9]+(?:{_SLASH}[A-Za-z0-9]+){{2,4}})",
    ),
    key(
        "DISCORD_WEBHOOK",
        "Discord",
        rf"discord(?:app)?\.com{_SLASH}api(?:{_SLASH}v\d\d?)?{_SLASH}webhooks{_SLASH}(\d{{17,20}}{_SLASH}[A-Za-z0-9_-]{{60,}})",
    ),
    key(
        "TEAMS_WEBHOOK",
        "Microsoft Teams",
        rf"webhook\.office\.com{_SLASH}webhookb2{_SLASH}({_UUID}(?:@|%40){_UUID}{_SLASH}IncomingWebhook{_SLASH}[0-9a-f]{{32}}{_SLASH}[A-Za-z0-9-]{{36,}})",
    ),
    key(
        "TEAMS_WEBHOOK",
        "Microsoft Teams, older addresses",
        rf"outlook\.office(?:365)?\.com{_SLASH}webhook{_SLASH}({_UUID}(?:@|%40){_UUID}{_SLASH}[A-Za-z]+{_SLASH}[0-9a-f]{{32}}{_SLASH}[A-Za-z0-9-]{{36,}})",
    ),
    key(
        "GOOGLE_CHAT_WEBHOOK",
        "Google Chat",
        rf"chat\.googleapis\.com{_SLASH}v1{_SLASH}spaces{_SLASH}([A-Za-z0-9_-]{{8,}}{_SLASH}messages\?[A-Za-z0-9_=&%;.-]{{40,}})",
    ),
    key(
        "ZAPIER_WEBHOOK",
        "Zapier",
        rf"hooks\.zapier\.com{_SLASH}hooks{_SLASH}catch{_SLASH}(\d+{_SLASH}[A-Za-z0-9]{{5,}})",
    ),
    key(
        "IFTTT_KEY",
        "IFTTT",
        rf"maker\.ifttt\.com{_SLASH}trigger{_SLASH}[A-Za-z0-9_-]+{_SLASH}(?:json{_SLASH})?with{_SLASH}key{_SLASH}([A-Za-z0-9_-]{{20,}})",
    ),
    key("MAKE_WEBHOOK", "Make", rf"hook\.[a-z0-9-]+\.make\.com{_SLASH}([a-z0-9]{{24,}})"),
    key(
        "FEISHU_WEBHOOK",
        "Feishu and Lark",
        rf"open\.(?:feishu\.cn|larksuite\.com){_SLASH}open-apis{_SLASH}bot{_SLASH}(?:v2{_SLASH})?hook{_SLASH}([0-9a-f-]{{32,36}})",
    ),
    key(
        "DINGTALK_WEBHOOK",
        "DingTalk",
        rf"oapi\.dingtalk\.com{_SLASH}robot{_SLASH}send\?access_token=([0-9a-f]{{64}})",
    ),
    key(
        "WECOM_WEBHOOK",
        "WeCom",
        rf"qyapi\.weixin\.qq\.com{_SLASH}cgi-bin{_SLASH}webhook{_SLASH}send\?key=([0-9a-f-]{{36}})",
    ),
    key(
        "TINES_WEBHOOK", "Tines", rf"tines\.com{_SLASH}webhook{_SLASH}([a-z0-9]{{32}}{_SLASH}[a-z0-9]{{32}})"
    ),
    key(
        "THINGSBOARD_TOKEN",
        "ThingsBoard",
        rf"thingsboard\.cloud{_SLASH}api{_SLASH}v1{_SLASH}([A-Za-z0-9]{{20}})",
    ),
    key("PIPEDREAM_WEBHOOK", "Pipedream", r"e[no][a-z0-9]{10,20}\.m\.pipedream\.net"),
)
