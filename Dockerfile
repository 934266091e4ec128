# Aforo's image.
#
#   docker build -t aforo .
#   docker run --rm -p 8080:8080 -p 9090:9090 aforo demo --listen 0.0.0.0:8080 --admin 0.0.0.0:9090
#   docker run --rm -p 8080:8080 -v ./conf/cluster.yaml:/etc/aforo/aforo.yaml:ro aforo
#
# The build stage has cargo and what C dependencies need; the image has the binary and a small
# Debian, no compiler and no root.

FROM rust:1-bookworm AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends cmake \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
# Dependencies alone first, so that a change of Aforo's own code does not build them again.
COPY Cargo.toml Cargo.lock ./
RUN mkdir src \
 && echo 'fn main() {}' > src/main.rs \
 && touch src/lib.rs \
 && cargo build --release --locked \
 && rm -r src
COPY src src
COPY lua lua
COPY migrations migrations
RUN touch src/main.rs src/lib.rs \
 && cargo build --release --locked --bin aforo

FROM debian:bookworm-slim
RUN useradd --system --no-create-home --uid 10001 aforo
COPY --from=build /src/target/release/aforo /usr/local/bin/aforo
COPY conf/aforo.yaml /etc/aforo/aforo.yaml
USER aforo
EXPOSE 8080 8443 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=5s \
  CMD ["aforo", "health", "-c", "/etc/aforo/aforo.yaml"]
ENTRYPOINT ["aforo"]
CMD ["run", "-c", "/etc/aforo/aforo.yaml"]
