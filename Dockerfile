# Two stages: one builds, the other holds the binary, the libraries it needs, and nothing to build with.
ARG DEBIAN=debian:bookworm-slim

FROM ${DEBIAN} AS build
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        build-essential meson ninja-build pkg-config python3 libmicrohttpd-dev libgnutls28-dev libjansson-dev nettle-dev libdeflate-dev zlib1g-dev libcurl4-gnutls-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN meson setup build --prefix=/usr/local --buildtype=release --strip -Dtests=false \
    && meson compile -C build \
    && DESTDIR=/staging meson install -C build --no-rebuild

FROM ${DEBIAN}
LABEL org.opencontainers.image.title="attnd" \
    org.opencontainers.image.description="Multi-head attention over HTTP, with the map and the importance of every head" \
    org.opencontainers.image.version="0.1.0" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.base.name="docker.io/library/debian:bookworm-slim"
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends libmicrohttpd12 libgnutls30 libjansson4 libnettle8 libdeflate0 zlib1g libcurl3-gnutls ca-certificates \
    && apt-get clean && rm -rf /var/lib/apt/lists/*
COPY --from=build /staging/usr/local/bin/attnd /usr/local/bin/attnd
COPY LICENSE THIRD-PARTY-NOTICES.md /usr/local/share/doc/attnd/
# Listens on all addresses of the container. Mount another file here to change it (with "listen", or it is on the container's loopback;
# relative paths of weights start from this folder), or set ATTND_* variables (ATTND_LISTEN rather than
# --listen, so that the health check, which reads the same variables, asks the right port).
COPY config/examples/container.json /etc/attnd/attnd.json

USER 10001:10001
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
    CMD ["/usr/local/bin/attnd", "--config", "/etc/attnd/attnd.json", "--health"]
# Exec form: attnd is process 1 and gets the signals itself. It writes nothing but its log on stderr: a read-only root file system is enough.
ENTRYPOINT ["/usr/local/bin/attnd", "--config", "/etc/attnd/attnd.json"]
