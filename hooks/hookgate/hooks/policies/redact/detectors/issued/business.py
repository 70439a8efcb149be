"""Keys of services for customers, employees and offices."""

from hookgate.hooks.policies.redact.detectors.issued.row import key
from hookgate.hooks.policies.redact.detectors.randomness import is_random

BUSINESS = (
    key(
        "HUBSPOT_TOKEN",
        "HubSpot",
        r"pat-(?:na|eu|ap)\d-[0-9A-Za-z]{8}(?:-[0-9A-Za-z]{4}){3}-[0-9A-Za-z]{12}\b",
    ),
    key("SALESFORCE_TOKEN", "Salesforce: sessions", r"00D[A-Za-z0-9]{12,15}!A[A-Za-z0-9._]{60,}"),
    key("SALESFORCE_TOKEN", "Salesforce: refresh tokens", r"5Aep861[A-Za-z0-9._]{60,}"),
    key("SALESFORCE_KEY", "Salesforce: connected apps", r"3MVG9[A-Za-z0-9._]{60,}"),
    key("ZOHO_TOKEN", "Zoho", r"1000\.[0-9a-f]{32}\.[0-9a-f]{32}\b"),
    key("TEAMWORK_TOKEN", "Teamwork", r"tkn\.v1_[A-Za-z0-9+/_-]{40,}={0,2}"),
    key("ADOBE_SECRET", "Adobe", r"p8e-[A-Za-z0-9_-]{32}\b"),
    key(
        "ONFIDO_TOKEN",
        "Onfido",
        r"api_(?:live|sandbox)(?:_[a-z]{2})?\.[A-Za-z0-9_-]{11,}(?:\.[A-Za-z0-9_-]{32})?",
    ),
    key("PERSONA_KEY", "Persona", r"persona_(?:production|sandbox)_[A-Za-z0-9_-]{20,}"),
    key("JUMPCLOUD_KEY", "JumpCloud", r"jca_[A-Za-z0-9]{36,}"),
    key("OKTA_TOKEN", "Okta", r"SSWS[ ]+([A-Za-z0-9_-]{40,44})\b"),
    key("CLOSE_KEY", "Close", r"api_[A-Za-z0-9]{22}\.[A-Za-z0-9]{22}\b"),
    key("FOURSQUARE_KEY", "Foursquare", r"fsq3[A-Za-z0-9+/]{40,}={0,2}"),
    key("OPTIMIZELY_TOKEN", "Optimizely", r"2:[A-Za-z0-9_-]{60,}"),
    key("SUMO_LOGIC_KEY", "Sumo Logic", r"su[A-Za-z0-9]{12}:[A-Za-z0-9]{60,}"),
    key("GHOST_KEY", "Ghost", r"[0-9a-f]{24}:[0-9a-f]{64}\b"),
    key("CANVA_SECRET", "Canva", r"cnvca[A-Za-z0-9_-]{40,}"),
    key("DOCUMENSO_KEY", "Documenso", r"api_[a-z0-9]{16,40}\b", is_random),
    key("BESTTIME_KEY", "BestTime", r"pri_[0-9a-f]{32}\b"),
    key("FLEETBASE_KEY", "Fleetbase", r"flb_(?:live|test)_[0-9A-Za-z]{20}\b"),
    key("FLEXPORT_KEY", "Flexport", r"shltm_[0-9A-Za-z_-]{40}"),
    key("FULLSTORY_KEY", "FullStory", r"(?:na|eu)1\.[A-Za-z0-9+/]{20,}\b", is_random),
    key("SAMSARA_TOKEN", "Samsara", r"samsara_api_[A-Za-z0-9]{30,}"),
    key("SHUTTERSTOCK_TOKEN", "Shutterstock", r"v2/[0-9A-Za-z]{300,}"),
)
