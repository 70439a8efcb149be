"""Stand-ins for servers: upstreams, Google Cloud, an OpenID provider, and captured traffic."""
