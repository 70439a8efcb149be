"""Keys of databases, and of services that store, move and analyze data."""

from hookgate.hooks.policies.redact.detectors.issued.row import key

DATA = (
    key("PLANETSCALE_TOKEN", "PlanetScale", r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_=.-]{32,}"),
    key("NEON_KEY", "Neon", r"napi_[A-Za-z0-9]{60,}"),
    key("NEON_PASSWORD", "Neon: passwords of databases", r"npg_[A-Za-z0-9]{12,}\b"),
    key("SUPABASE_KEY", "access tokens", r"sbp_(?:oauth_|v0_)?[0-9A-Za-z]{40}\b"),
    key("SUPABASE_KEY", "secret keys", r"sb_secret_[A-Za-z0-9_-]{28,}"),
    key("MONGODB_SECRET", "MongoDB Atlas: service accounts", r"mdb_sa_sk_[A-Za-z0-9_-]{40,}"),
    key("COCKROACH_KEY", "CockroachDB", r"CCDB1_[A-Za-z0-9]{22}_[A-Za-z0-9]{40}\b"),
    key("AIVEN_PASSWORD", "Aiven", r"AVNS_[A-Za-z0-9_-]{16,}"),
    key("CLICKHOUSE_KEY", "ClickHouse Cloud", r"4b1d[A-Za-z0-9]{38}\b"),
    key("XATA_KEY", "Xata", r"xau_[A-Za-z0-9]{30,}"),
    key("APPWRITE_KEY", "Appwrite", r"standard_[0-9a-fA-F]{100,}"),
    key("ELASTIC_KEY", "Elastic Cloud", r"essu_[A-Za-z0-9+/_-]{40,}={0,2}"),
    key("ASTRA_TOKEN", "DataStax Astra", r"AstraCS:[A-Za-z0-9]{20,30}(?::[0-9a-f]{64})?\b"),
    key("PINECONE_KEY", "Pinecone", r"pcsk_[A-Za-z0-9_]{50,}"),
    key("CHROMA_KEY", "Chroma", r"ck-[A-Za-z0-9]{40,}\b"),
    key("TINYBIRD_TOKEN", "Tinybird", r"p\.eyJ[A-Za-z0-9_-]{20,}(?:\.[A-Za-z0-9_-]{20,})?"),
    key("MATERIALIZE_KEY", "Materialize", r"mzp_[0-9a-fA-F]{64}\b"),
    key("DATABRICKS_TOKEN", "Databricks", r"(?:dapi|dose|dkea|dsapi)[0-9a-f]{32}(?:-\d)?\b"),
    key("DBT_TOKEN", "dbt Cloud", r"dbt[cu]_[A-Za-z0-9_-]{40,}"),
    key("CONFLUENT_SECRET", "Confluent Cloud", r"cflt[A-Za-z0-9+/]{60}\b"),
    key("INFLUXDB_TOKEN", "InfluxDB 3", r"apiv3_[A-Za-z0-9_-]{60,}"),
    key("SEGMENT_TOKEN", "Segment", r"sgp_[A-Za-z0-9]{64}\b"),
    key("QUICKNODE_KEY", "QuickNode", r"QN_[0-9a-f]{32}\b"),
    key("DOLT_TOKEN", "DoltHub", r"dhat\.v1\.[a-z0-9]{40,}"),
    key("SCRAPING_KEY", "ScraperAPI, ScrapingAnt", r"scp-(?:live|test)-[0-9a-fA-F]{32}\b"),
)
