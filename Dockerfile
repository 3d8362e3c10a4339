# The image of an operator: docker build --build-arg APP=examples/backup -t backup-operator .
# APP is a folder that holds a package named `app`. The image runs as nobody in particular (65532),
# needs no writable file system and has neither pip nor a compiler. Every package that goes into it,
# or makes the wheel of rws_operator, is checked by its hash.
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS build
WORKDIR /src
RUN python -m venv --without-pip /venv
COPY requirements-runtime.lock requirements-build.lock ./
RUN pip --python /venv/bin/python install --no-cache-dir --require-hashes -r requirements-runtime.lock \
    && pip install --no-cache-dir --root-user-action=ignore --require-hashes -r requirements-build.lock
COPY pyproject.toml README.md LICENSE pytest_rws_operator.py ./
COPY rws_operator rws_operator
COPY starters starters
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip --python /venv/bin/python install --no-cache-dir --no-deps --no-index /wheels/*.whl \
    && /venv/bin/python -m compileall -q -x /starters/ /venv/lib

FROM python:${PYTHON}-slim
ARG APP=examples/backup
RUN pip uninstall --yes --quiet --root-user-action=ignore pip
COPY --from=build /venv /venv
COPY ${APP}/app /srv/app
WORKDIR /srv
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 8080 9443
ENTRYPOINT ["python", "-m", "app"]
CMD ["serve"]
