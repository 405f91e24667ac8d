# Two stages: the first builds what `make` builds anywhere, the second holds the program and its libraries.
#     docker build -t headscope . && docker run --rm -p 8080:8080 headscope
# Where a proxy signs for the package registries, with its certificate:
#     docker build -t headscope --secret id=ca,src=proxy.pem .
FROM debian:12-slim AS build
WORKDIR /src
# The packages first, so that a change of the sources does not fetch them again.
COPY deploy/packages.sh deploy/
RUN --mount=type=secret,id=ca,target=/usr/local/share/ca-certificates/proxy.crt \
    apt-get update && apt-get install -y --no-install-recommends ca-certificates && update-ca-certificates \
    && deploy/packages.sh build
COPY . .
RUN make

FROM debian:12-slim
RUN --mount=type=bind,source=deploy/packages.sh,target=/packages.sh \
    sh /packages.sh runtime \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /nonexistent --shell /usr/sbin/nologin headscope \
    && install -d -o 10001 -g 10001 -m 0700 /var/lib/headscope
COPY --from=build /src/build/headscope /usr/local/bin/headscope
USER 10001:10001
# Inside a container nobody reaches 127.0.0.1; what is published decides who may come in.
ENV HEADSCOPE_LISTEN=0.0.0.0:8080
EXPOSE 8080
ENTRYPOINT ["headscope"]
CMD ["serve"]
