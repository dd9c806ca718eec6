# One image for every part of Herdless; the command says which part it is (docs/deploy.md).
#
#   docker build --tag herdless .                                      packages from the index that pip knows
#   docker build --tag herdless --build-arg PIP_INDEX_URL=https://… .  … from another one
#   make wheels && docker build --tag herdless .                       … from build/wheels, without a network
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS build
ARG PIP_INDEX_URL=
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1 PIP_ONLY_BINARY=:all: PIP_NO_COMPILE=1
WORKDIR /build
# build/wheels may be missing: a pattern that finds nothing is no error beside a file that is there.
COPY requirements.txt requirements-dev.txt build/wheel[s] wheels/
# The tests that packages carry go, and everything is compiled, because nothing can be written where it runs.
RUN [ -n "$PIP_INDEX_URL" ] || unset PIP_INDEX_URL; \
    if ls wheels/*.whl >/dev/null 2>&1; then export PIP_NO_INDEX=1 PIP_FIND_LINKS=wheels; fi; \
    python -m venv --without-pip /app \
 && python -m pip --python /app install --quiet --require-hashes --requirement wheels/requirements.txt \
 && find /app -type d -name tests -prune -exec rm -rf {} + \
 && /app/bin/python -m compileall -q -j 0 /app/lib
COPY pyproject.toml README.md LICENSE ./
COPY router router
COPY server server
COPY services services
# What builds our wheel has the locked versions; hashes go by file, and ours is a folder.
RUN [ -n "$PIP_INDEX_URL" ] || unset PIP_INDEX_URL; \
    if ls wheels/*.whl >/dev/null 2>&1; then export PIP_NO_INDEX=1 PIP_FIND_LINKS=/build/wheels; fi; \
    sed -e '/--hash=/d' -e 's/ *\\$//' wheels/requirements-dev.txt >pins.txt \
 && PIP_CONSTRAINT=/build/pins.txt python -m pip wheel --quiet --no-deps --wheel-dir own . \
 && python -m pip --python /app install --quiet --no-deps --no-index --compile own/*.whl

FROM ${PYTHON_IMAGE}
COPY --from=build /app /app
ENV PATH=/app/bin:$PATH PYTHONSAFEPATH=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 MPLCONFIGDIR=/tmp/matplotlib
# A volume that is mounted here, and into which the token of a cluster is written, takes its owner over.
RUN mkdir -m 700 /run/herdless && chown 65532:65532 /run/herdless
# Nobody's: it owns no file of the image.
USER 65532:65532
WORKDIR /tmp
EXPOSE 8080
# Every part answers /ready with 200 when it is. Written so that it starts in some hundredths of a second; by TLS it asks
# itself, so it believes whoever answers, and has the certificate that it may be asked for. Commands that do not serve
# this port (`run`, `simulate`, …: neither `deploy` nor told the port) are healthy as long as they live.
HEALTHCHECK --interval=3s --timeout=3s --start-period=60s --retries=5 CMD ["python", "-I", "-S", "-c", "\
import os, socket, sys; \
words = open('/proc/1/cmdline').read().split('\\0'); \
{'deploy', '8080', '--port=8080'} & {*words} or sys.exit(0); \
ask = socket.create_connection(('127.0.0.1', 8080), 2); \
cert, key = os.environ.get('HERDLESS_TLS_CERT'), os.environ.get('HERDLESS_TLS_KEY'); \
context = cert and __import__('ssl')._create_unverified_context(); \
cert and context.load_cert_chain(cert, key or None); \
ask = context.wrap_socket(ask) if cert else ask; \
ask.sendall(b'GET /ready HTTP/1.0\\r\\n\\r\\n'); \
sys.exit(b' 200 ' not in ask.recv(64))"]
ENTRYPOINT ["herdless"]
CMD ["--help"]
