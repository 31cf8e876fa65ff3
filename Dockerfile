# CI's own image: what tools/install_packages.sh installs on Debian 12. The project is mounted, not copied:
#   docker build -t trainwright-ci . && docker run --rm -v "$PWD:/project" trainwright-ci .ci/run
# hadolint global ignore=DL3008
FROM debian:12-slim
COPY tools/install_packages.sh /tmp/install_packages.sh
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends ca-certificates git \
 && /tmp/install_packages.sh \
 && rm -rf /var/lib/apt/lists/* /tmp/install_packages.sh
WORKDIR /project
