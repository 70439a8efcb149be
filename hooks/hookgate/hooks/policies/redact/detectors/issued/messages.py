"""Keys of mail, messages, telephony and social networks."""

from hookgate.hooks.policies.redact.detectors.issued.row import key
from hookgate.hooks.policies.redact.detectors.randomness import is_random

MESSAGES = (
    key("SLACK_TOKEN", "Slack", r"xox[abceoprs](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}"),
    key("SLACK_TOKEN", "apps and workflows", r"x(?:app|wfp)-\d?-?[A-Za-z0-9-]{20,}"),
    key("SLACK_TOKEN", "sessions in browsers", r"xoxd-[A-Za-z0-9%+/=-]{20,}"),
    key(
        "DISCORD_TOKEN",
        "Discord: bots",
        r"(?:[MNO][DTjz][AEIMQUYcgk][w-z0-5]){5}[A-Za-z0-9_-]{2,8}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
    ),
    key("DISCORD_TOKEN", "Discord: accounts", r"mfa\.[A-Za-z0-9_-]{60,}"),
    key("TELEGRAM_TOKEN", "Telegram", r"\d{8,10}:AA[A-Za-z0-9_-]{33}\b"),
    key("FACEBOOK_TOKEN", "Facebook, Instagram, WhatsApp", r"EAA[A-Za-z0-9]{60,}", None),
    key("FACEBOOK_TOKEN", "tokens of apps", r"\d{13,17}(?:[|]|%7C)[A-Za-z0-9_-]{27,40}\b", is_random),
    key("INSTAGRAM_TOKEN", "Instagram", r"IG(?:Q|AA)[A-Za-z0-9_-]{80,}"),
    key("TWITTER_TOKEN", "X: bearer tokens", r"AAAAAAAAAAAAAAAAAAAA[A-Za-z0-9%]{60,}", None),
    key("TWITTER_TOKEN", "X: access tokens", r"\d{15,20}-[A-Za-z0-9]{40}\b", is_random),
    key("VK_TOKEN", "VK", r"vk1\.a\.[A-Za-z0-9_-]{80,}"),
    key("LINKEDIN_SECRET", "LinkedIn: client secrets", r"WPL_AP\d\.[A-Za-z0-9.]{12,}\.[A-Za-z0-9+/=]{8,}"),
    key("LINKEDIN_TOKEN", "LinkedIn", r"AQ[TUVWX][A-Za-z0-9_-]{100,}"),
    key("TIKTOK_TOKEN", "TikTok", r"(?:act|rft|clt)\.[A-Za-z0-9!]{60,}"),
    key("PINTEREST_TOKEN", "Pinterest", r"pina_[A-Z0-9]{40,}"),
    key("TWITCH_TOKEN", "Twitch", r"oauth:[a-z0-9]{30}\b"),
    key("DROPBOX_TOKEN", "Dropbox", r"sl\.(?:u\.)?[A-Za-z0-9_-]{80,}"),
    key("SENDGRID_KEY", "SendGrid", r"SG\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}"),
    key("MAILGUN_KEY", "Mailgun", r"key-[0-9a-f]{32}\b"),
    key("MAILGUN_KEY", "Mailgun", r"[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}\b"),
    key("MAILCHIMP_KEY", "Mailchimp", r"[0-9a-f]{32}-us\d{1,2}\b"),
    key("MANDRILL_KEY", "Mandrill", r"md-[A-Za-z0-9_-]{22}\b", is_random),
    key("BREVO_KEY", "Brevo", r"x(?:keysib|smtpsib)-[0-9a-f]{64}-[A-Za-z0-9]{16}\b"),
    key("RESEND_KEY", "Resend", r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}\b"),
    key("MAILERSEND_TOKEN", "MailerSend", r"mlsn\.[0-9a-f]{64}\b"),
    key("COURIER_KEY", "Courier", r"pk_(?:prod|test)_[A-Z0-9]{28}\b"),
    key("KLAVIYO_KEY", "Klaviyo", r"pk_[0-9a-f]{34}\b"),
    key("INTERCOM_TOKEN", "Intercom", r"dG9rO[A-Za-z0-9+/]{40,}={0,2}"),
    key("ONESIGNAL_KEY", "OneSignal", r"os_v2_(?:app|org)_[a-z2-7]{60,}"),
    key("TWILIO_KEY", "Twilio: API keys", r"SK[0-9a-fA-F]{32}\b"),
    key("PUBNUB_KEY", "PubNub", r"sec-c-[A-Za-z0-9]{36,}={0,2}"),
    key("SVIX_TOKEN", "Svix", r"testsk_[A-Za-z0-9._-]{32,}"),
)
