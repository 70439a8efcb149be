#!/bin/sh
# Creates the secrets of a team's gateways, each in a file. Files that exist are kept.
# usage: [GEMINI_API_KEY=…] deploy/team/secrets.sh FOLDER [DATABASE_HOST:PORT]
set -eu
folder=${1:?usage: secrets.sh FOLDER [DATABASE_HOST:PORT]}
mkdir -p "$folder"
chmod 700 "$folder"    # on this machine nobody else reads the files; in a container, the gateway's user must
cd "$folder"

secret() {
    [ -e "$1" ] || openssl rand -hex "$2" > "$1"
}

secret pepper 32
secret admin-token 24
secret database-password 24
[ -e redact.key ] || openssl rand 32 > redact.key    # of pseudonyms, which are the same at all gateways
[ -e store-url ] ||
    printf 'postgresql+psycopg://hookgate:%s@%s/hookgate\n' "$(cat database-password)" "${2:-postgres:5432}" > store-url
if [ ! -e gemini-key ]; then
    [ -n "${GEMINI_API_KEY:-}" ] || echo "secrets.sh: GEMINI_API_KEY is not set; write the gateway's key to $folder/gemini-key" >&2
    printf '%s\n' "${GEMINI_API_KEY:-not-a-key-yet}" > gemini-key
fi
chmod 444 pepper admin-token database-password store-url gemini-key redact.key
