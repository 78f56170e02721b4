# worker and starter in one image: static binaries, no root, a shell only for
# what busybox gives (the health check is its wget).
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=container
RUN make build VERSION="$VERSION" && mkdir /empty

FROM busybox:1.37.0-musl
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /src/bin/worker /src/bin/starter /usr/local/bin/
# A named volume takes the owner of the directory that it covers.
COPY --from=build --chown=65532:65532 /empty /data
ENV TRAWL_DATA_DIR=/data
USER 65532:65532
CMD ["/usr/local/bin/worker"]
