# `make run` tries Aforo out, `make test` checks everything, `make compare` measures it beside others.
# On a fresh Debian machine with Rust (rustup) they are all one types.

CARGO ?= $(or $(shell command -v cargo 2>/dev/null),$(HOME)/.cargo/bin/cargo)
SUDO  := $(if $(filter 0,$(shell id -u)),,sudo)

# $(call missing,COMMAND,PACKAGES): the Debian packages to install for a command that is not there.
missing = $(if $(shell command -v $(1) 2>/dev/null),,$(2))
# $(call install,PACKAGES): installs them, if there are any.
install = $(if $(strip $(1)),$(SUDO) apt-get update -q && $(SUDO) env DEBIAN_FRONTEND=noninteractive \
	apt-get install -q -y --no-install-recommends $(strip $(1)),@:)

.PHONY: help build run test compare build-needs test-needs

help:
	@echo 'make run      builds the release binary and starts the demo, with three curl lines to try'
	@echo 'make build    builds the release binary, target/release/aforo'
	@echo 'make test     format, lints and every test, against a real Redis and PostgreSQL'
	@echo 'make compare  measures Aforo beside nginx + Lua, Envoy and HAProxy; COMPARE=--quick to try it'

build: build-needs
	$(CARGO) build --release --locked

run: build
	target/release/aforo demo

test: build-needs test-needs
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	$(CARGO) test --locked

# All in release, the program that measures too: that is one set of dependencies to build, not two.
compare: build-needs
	load/compare/install.sh
	$(CARGO) build --release --locked --bin aforo --example passthrough --example origin --example compare
	$(CARGO) run --release --locked --example compare -- $(COMPARE)

build-needs:
	$(call install,$(call missing,cmake,cmake) $(call missing,cc,gcc libc6-dev))

# Tests start servers of their own: those that come with the packages are not left running. What
# was here before is left alone. Debian keeps PostgreSQL's programs out of the path.
test-needs: redis_server := $(call missing,redis-server,redis-server)
test-needs: postgres_server := $(if $(wildcard /usr/lib/postgresql/*/bin/postgres),,$(call missing,postgres,postgresql))
test-needs: nginx := $(if $(wildcard /usr/sbin/nginx),,$(call missing,nginx,nginx-light))
test-needs: build-needs
	$(call install,$(redis_server) $(postgres_server) $(call missing,psql,postgresql-client) $(call missing,curl,curl) $(call missing,openssl,openssl) \
		$(nginx) $(call missing,h2load,nghttp2-client))
	$(if $(redis_server),$(SUDO) systemctl disable --now redis-server || $(SUDO) service redis-server stop || true,@:)
	$(if $(postgres_server),$(SUDO) systemctl disable --now postgresql || $(SUDO) service postgresql stop || true,@:)
	$(if $(nginx),$(SUDO) systemctl disable --now nginx || $(SUDO) service nginx stop || true,@:)
