# The same image as `./x image`, for those who have Docker: the files are gathered by the same code.
FROM debian:12 AS build
COPY . /src
WORKDIR /src
RUN ./x image --rootfs /rootfs

FROM scratch
COPY --from=build /rootfs/ /
LABEL org.opencontainers.image.title="stowage" \
      org.opencontainers.image.description="CSI storage on Kubernetes" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
ENTRYPOINT ["/usr/bin/stowage"]
