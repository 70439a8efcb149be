# One base for both stages, by its digest, because tags can be moved. The digest is that of all platforms:
# `docker buildx imagetools inspect python:3.11.14-slim-bookworm` prints it.
FROM python:3.11.14-slim-bookworm@sha256:65a93d69fa75478d554f4ad27c85c1e69fa184956261b4301ebaf6dbb0a3543d AS base

FROM base AS build
WORKDIR /src
COPY requirements.lock requirements-build.lock ./
# The hash of each file to download, including the build dependencies of the package.
RUN python3 -m venv /venv \
 && /venv/bin/pip install --no-cache-dir --disable-pip-version-check --no-compile --require-hashes --requirement requirements.lock \
 && python3 -m venv /build \
 && /build/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --requirement requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY translator translator
COPY hooks hooks
COPY shim shim
COPY proxy proxy
COPY examples examples
RUN /build/bin/pip wheel --no-deps --no-build-isolation --disable-pip-version-check --wheel-dir /wheels . \
 && /venv/bin/pip install --no-deps --no-compile --no-index --disable-pip-version-check /wheels/*.whl \
 && /venv/bin/pip check
# Compiled in a way that gives equal files in each build: no times of files, and no order of sets.
RUN PYTHONHASHSEED=0 /venv/bin/python -m compileall -q -f --invalidation-mode unchecked-hash /venv/lib

FROM base
# A fixed user ID, so that it can own files of hooks. It has no shell, and may write only to the state folder.
RUN groupadd --system --gid 10001 hookgate \
 && useradd --system --uid 10001 --gid hookgate --no-create-home --home-dir /var/lib/hookgate \
    --shell /usr/sbin/nologin hookgate \
 && install --directory --owner 10001 --group 10001 --mode 0700 /var/lib/hookgate
LABEL org.opencontainers.image.title=hookgate \
      org.opencontainers.image.version=0.1.0 \
      org.opencontainers.image.licenses=Apache-2.0
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/var/lib/hookgate \
    HOOKGATE_STATE=/var/lib/hookgate \
    HOOKGATE_LISTEN=0.0.0.0:8787
WORKDIR /hooks
USER 10001:10001
EXPOSE 8787 9787
VOLUME /var/lib/hookgate
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
  CMD ["python3", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:9787/healthz', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["hookgate"]
CMD ["serve"]
