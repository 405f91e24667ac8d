# Three stages: the libraries that the program loads, what `make` builds anywhere, and both together.
#     docker build -t headscope . && docker run --rm -p 127.0.0.1:8080:8080 headscope
# A release names its base by digest (docker buildx imagetools inspect debian:13-slim), so that it can be built again:
#     docker build -t headscope --build-arg BASE=debian:13-slim@sha256:... .
# Where a proxy signs for the package registries, with its certificate:
#     docker build -t headscope --secret id=ca,src=proxy.pem .
ARG BASE=debian:13-slim
FROM ${BASE} AS libraries
RUN --mount=type=bind,source=deploy/packages.sh,target=/packages.sh \
    sh /packages.sh runtime \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /nonexistent --shell /usr/sbin/nologin headscope \
    && install -d -o 10001 -g 10001 -m 0700 /var/lib/headscope

FROM ${BASE} AS build
WORKDIR /src
# The packages first, so that a change of the sources does not fetch them again.
COPY deploy/packages.sh deploy/
RUN --mount=type=secret,id=ca,target=/usr/local/share/ca-certificates/proxy.crt \
    apt-get update && apt-get install -y --no-install-recommends ca-certificates python3 && update-ca-certificates \
    && deploy/packages.sh build
COPY . .
RUN make
# What the image holds, and the licences of what is linked into the program.
COPY --from=libraries /var/lib/dpkg/status /tmp/image-status
RUN deploy/licences.sh build/licenses \
    && python3 deploy/sbom.py build/headscope --image /tmp/image-status >build/licenses/headscope.cdx.json

FROM libraries
COPY --from=build /src/build/headscope /usr/local/bin/headscope
COPY --from=build /src/build/licenses /usr/local/share/doc/headscope
USER 10001:10001
# Inside a container nobody reaches 127.0.0.1; what is published decides who may come in.
ENV HEADSCOPE_LISTEN=0.0.0.0:8080
EXPOSE 8080
ENTRYPOINT ["headscope"]
CMD ["serve"]
