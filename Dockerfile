# The same image as `./x image`, for those who have Docker: the files are gathered by the same code.
FROM debian:12 AS build
COPY . /src
WORKDIR /src
RUN ./x image --rootfs /rootfs

FROM scratch
COPY --from=build /rootfs/ /
ENTRYPOINT ["/usr/bin/stowage"]
