FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY translator translator
COPY hooks hooks
COPY shim shim
COPY proxy proxy
COPY examples examples
RUN python3 -m venv /venv && /venv/bin/pip install --no-cache-dir --disable-pip-version-check '.[proxy,postgres,otel]'

FROM python:3.11-slim
# A fixed number, so that files of hooks can be owned by it; no home, no shell, nothing to write.
RUN groupadd --system --gid 10001 hookgate \
 && useradd --system --uid 10001 --gid hookgate --no-create-home --shell /usr/sbin/nologin hookgate
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOOKGATE_LISTEN=0.0.0.0:8787
WORKDIR /hooks
USER 10001:10001
EXPOSE 8787
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
  CMD ["python3", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:9787/healthz', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["hookgate"]
CMD ["serve"]
