"""Keys of payments, banks, shops and currencies."""

from hookgate.hooks.policies.redact.detectors.checks import is_base58
from hookgate.hooks.policies.redact.detectors.issued.row import key
from hookgate.hooks.policies.redact.detectors.randomness import is_random

MONEY = (
    key(
        "STRIPE_KEY",
        "secret and restricted keys; also Clerk, Paystack, WorkOS",
        r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}",
    ),
    key("STRIPE_KEY", "secrets of webhooks", r"whsec_[A-Za-z0-9+/]{24,}={0,2}"),
    key("STRIPE_KEY", "Stripe Apps, Checkout.com", r"sk_(?:sbox|org)_[A-Za-z0-9]{20,}"),
    key("SQUARE_TOKEN", "Square", r"sq0(?:atp|asa|c[a-z]{2}|i(?:ap|db))-[A-Za-z0-9_-]{22,}"),
    key("SQUARE_TOKEN", "Square: access tokens", r"EAAA[A-Za-z0-9_+=-]{22,60}\b", is_random),
    key(
        "BRAINTREE_TOKEN",
        "PayPal Braintree",
        r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-fA-F]{32}\b",
    ),
    key("PAYPAL_TOKEN", "PayPal", r"A21AA[A-Za-z0-9_-]{80,}"),
    key("ADYEN_KEY", "Adyen", r"AQE[a-z][A-Za-z0-9+/_.-]{80,}={0,2}[A-Za-z0-9^:;,<>\[\]{}().!@%&*?+-]{0,40}"),
    key(
        "PLAID_TOKEN",
        "Plaid",
        r"(?:access|public)-(?:sandbox|development|production)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b",
    ),
    key(
        "LIVE_KEY",
        "Mollie, GoCardless, Lob, Chargebee and others",
        r"(?:live|test|sandbox)_[A-Za-z0-9_-]{27,}\b",
        is_random,
    ),
    key("FLUTTERWAVE_KEY", "Flutterwave", r"FLWSECK(?:_TEST|_PROD)?-[0-9A-Za-z]{12,32}(?:-X)?\b"),
    key("SHIPPO_TOKEN", "Shippo", r"shippo_(?:live|test)_[0-9a-fA-F]{40}\b"),
    key("EASYPOST_KEY", "EasyPost", r"EZ[AT]K[A-Za-z0-9]{54}\b"),
    key("DUFFEL_TOKEN", "Duffel", r"duffel_(?:test|live)_[A-Za-z0-9_=-]{43}"),
    key("PADDLE_KEY", "Paddle", r"pdl_(?:live|sdbx|ntfset)_[A-Za-z0-9_]{30,}"),
    key("POLAR_TOKEN", "Polar", r"polar_[a-z]{2,3}_[A-Za-z0-9_-]{20,}"),
    key("XENDIT_KEY", "Xendit", r"xnd_(?:production|development)_[A-Za-z0-9]{40,}"),
    key("MIDTRANS_KEY", "Midtrans", r"(?:SB-)?Mid-server-[A-Za-z0-9_-]{20,}"),
    key("MERCADO_PAGO_TOKEN", "Mercado Pago", r"(?:APP_USR|TEST)-\d{13,17}-\d{6}-[0-9a-fA-F]{32}-\d{5,12}\b"),
    key("CASHFREE_KEY", "Cashfree", r"cfsk_ma_(?:prod|test)_[0-9a-fA-F]{32}_[0-9a-fA-F]{8}\b"),
    key("BREX_TOKEN", "Brex", r"bxt_[A-Za-z0-9]{30,}"),
    key("RAMP_SECRET", "Ramp", r"ramp_sec_[A-Za-z0-9]{40,}"),
    key("MERCURY_TOKEN", "Mercury", r"(?:secret-token:)?mercury_[a-z]+_[A-Za-z0-9_-]{20,}"),
    key("REVENUECAT_KEY", "RevenueCat, IEX Cloud and others", r"sk_[A-Za-z0-9]{28,}\b", is_random),
    key("SHOPIFY_TOKEN", "Shopify", r"shp(?:at|ca|pa|ss|ua|tka|it|si)_[0-9a-fA-F]{32}\b"),
    key("WOOCOMMERCE_KEY", "WooCommerce", r"c[ks]_[0-9a-f]{40}\b"),
    key(
        "EBAY_KEY",
        "eBay",
        r"(?:PRD|SBX)-[0-9a-fA-F]{12}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4,8}\b",
    ),
    key("EBAY_TOKEN", "eBay: OAuth", r"v\^1\.1#i\^1#[A-Za-z0-9^#=+/]{60,}"),
    key("TELNYX_KEY", "Telnyx", r"KEY[0-9A-Za-z]{32}_[A-Za-z0-9]{22}\b"),
    key(
        "BITCOIN_KEY",
        "private keys in the wallet import format",
        r"[5KL][1-9A-HJ-NP-Za-km-z]{50,51}\b",
        is_base58,
    ),
    key("BITCOIN_KEY", "extended private keys", r"[xyzt]prv[1-9A-HJ-NP-Za-km-z]{107}\b"),
    key("CARDANO_KEY", "Cardano", r"(?:ed25519e?|addr|root|acct|stake)_xs?k1[a-z0-9]{100,}"),
    key("ALCHEMY_KEY", "Alchemy", r"alcht_[A-Za-z0-9]{30}\b"),
    key("ALPACA_KEY", "Alpaca", r"[AP]K[A-Z0-9]{18}\b", is_random),
    key("COINBASE_KEY", "Coinbase", r"organizations/[0-9a-f-]{36}/apiKeys/[0-9a-f-]{36}\b"),
    key("ASAAS_KEY", "Asaas", r"\$aact_[A-Za-z0-9+/=:_-]{20,}", preceded_by=""),
    key("PROOF_KEY", "Proof", r"prf_(?:cli_)?[A-Za-z0-9_-]{20,}\b", is_random),
    key("GEMINI_EXCHANGE_KEY", "the exchange Gemini", r"(?:master|account)-[0-9A-Za-z]{20}\b", is_random),
    key("FINAGE_KEY", "Finage", r"API_KEY[0-9A-Z]{32}\b"),
)
