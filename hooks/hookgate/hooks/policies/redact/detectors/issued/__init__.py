"""Tables of keys and tokens whose format tells who issues them: one row for each format.

Keys that are public by design have no row: see `PUBLIC`.
"""

from hookgate.hooks.policies.redact.detectors.issued.business import BUSINESS
from hookgate.hooks.policies.redact.detectors.issued.clouds import CLOUDS
from hookgate.hooks.policies.redact.detectors.issued.data import DATA
from hookgate.hooks.policies.redact.detectors.issued.development import DEVELOPMENT
from hookgate.hooks.policies.redact.detectors.issued.messages import MESSAGES
from hookgate.hooks.policies.redact.detectors.issued.models import MODELS
from hookgate.hooks.policies.redact.detectors.issued.money import MONEY
from hookgate.hooks.policies.redact.detectors.issued.secrecy import SECRECY
from hookgate.hooks.policies.redact.detectors.issued.webhooks import WEBHOOKS

ISSUED = (
    *CLOUDS,
    *DEVELOPMENT,
    *MODELS,
    *DATA,
    *MONEY,
    *MESSAGES,
    *BUSINESS,
    *SECRECY,
    *WEBHOOKS,
)
"""In order of precedence: at one place the first that matches, and whose check passes, wins."""

PUBLIC = (
    ("Stripe, Clerk, RevenueCat and others", "`pk_live_`, `pk_test_`"),
    ("Mapbox", "`pk.`"),
    ("Supabase", "`sb_publishable_`"),
    ("PostHog", "`phc_`"),
    ("Statsig, LaunchDarkly", "`client-`, `mob-`"),
    ("PubNub", "`pub-c-`, `sub-c-`"),
    ("Square", "`sq0idp-`"),
    ("Razorpay", "`rzp_live_`, `rzp_test_`: the name of a key"),
    ("Flutterwave, Lob", "`FLWPUBK`, `live_pub_`"),
    ("Langfuse", "`pk-lf-`"),
    ("Mailgun", "`pubkey-`"),
    ("New Relic", "`NRJS-`, which is part of every page"),
    ("Twilio", "`AC`: the name of an account"),
    ("Google", "client IDs ending in `.apps.googleusercontent.com`"),
    ("Sentry", "DSNs without a password"),
    ("DevCycle", "`dvc_client_`, `dvc_mobile_`"),
    ("Aikido, Ramp, Lark", "`AIK_CLIENT_`, `ramp_id_`, `cli_`: names of clients"),
    ("age", "`age1`: the recipient of a secret"),
)
"""By issuer, what is public by design and therefore not replaced: publishable keys and names of accounts."""
