# One image for every role: `serve` (the default), `api`, `worker`, `migrate`, and the commands.
# Python and Debian are those that the tests run on. Named once, since both stages must have the same interpreter.
FROM python:3.11-slim-bookworm AS python
ENV PYTHONUNBUFFERED=1 \
    PATH=/opt/gpufare/bin:$PATH

FROM python AS build
# An index of packages of your own: `--build-arg PIP_INDEX_URL`. Unset, pip uses its default.
ARG PIP_INDEX_URL
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
WORKDIR /build
RUN python -m venv /opt/gpufare
COPY requirements.lock ./
RUN python -m pip install --require-hashes -r requirements.lock
# .dockerignore names what this copies: what the wheel is built from, and nothing else.
COPY . .
# The lock has the build backend too, which nothing needs to run.
RUN python -m pip install --no-deps --no-build-isolation . \
    && python -m pip uninstall --yes editables hatchling setuptools pip

FROM python
RUN useradd --uid 10001 --no-create-home --home-dir /var/lib/gpufare --shell /usr/sbin/nologin gpufare \
    && install --directory --owner gpufare --group gpufare --mode 0700 /var/lib/gpufare
COPY --from=build /opt/gpufare /opt/gpufare
# Without GPUFARE_DATABASE_URL the database is /var/lib/gpufare/gpufare.db: mount a volume on that folder.
ENV XDG_DATA_HOME=/var/lib
# By number, so that an orchestrator can see that it is not root.
USER 10001:10001
WORKDIR /var/lib/gpufare
EXPOSE 8000
STOPSIGNAL SIGTERM
# Of the server. Not /readyz: a server whose database is away still answers from memory, and starting it anew would end that.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import http.client; c = http.client.HTTPConnection('127.0.0.1', 8000, timeout=4); c.request('GET', '/healthz'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["gpufare"]
CMD ["serve", "--host", "0.0.0.0"]
