# Two stages: the first builds what `make` builds anywhere, the second holds the program and its libraries.
#     docker build -t headscope . && docker run --rm -p 8080:8080 headscope
FROM debian:12-slim AS build
WORKDIR /src
# The packages first, so that a change of the sources does not fetch them again.
COPY deploy/packages.sh deploy/
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && deploy/packages.sh build
COPY . .
RUN make

FROM debian:12-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends libmicrohttpd12 libjansson4 libopenblas0-pthread libdnnl2 libgomp1 libuv1 \
       libsqlite3-0 zlib1g libnettle8 libcurl4 ca-certificates \
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
